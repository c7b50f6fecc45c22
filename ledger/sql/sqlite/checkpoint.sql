CREATE TABLE projections (
  generation INTEGER NOT NULL,
  version INTEGER NOT NULL,
  position INTEGER NOT NULL,
  live INTEGER NOT NULL,
  head BLOB,
  PRIMARY KEY (generation)
)
 STRICT;;

CREATE TABLE verified (
  position INTEGER NOT NULL,
  head BLOB NOT NULL,
  PRIMARY KEY (position)
)
 STRICT;;

CREATE TABLE witnesses (
  position INTEGER NOT NULL,
  head BLOB NOT NULL,
  PRIMARY KEY (position)
)
 STRICT;;

CREATE TABLE projections (
  generation INTEGER NOT NULL,
  version INTEGER NOT NULL,
  position INTEGER NOT NULL,
  live INTEGER NOT NULL,
  PRIMARY KEY (generation)
)
 STRICT;;

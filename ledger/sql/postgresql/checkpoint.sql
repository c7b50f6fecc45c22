CREATE TABLE projections (
  generation BIGINT NOT NULL,
  version BIGINT NOT NULL,
  position BIGINT NOT NULL,
  live BIGINT NOT NULL,
  head BYTEA,
  PRIMARY KEY (generation)
);;

CREATE TABLE verified (
  position BIGINT NOT NULL,
  head BYTEA NOT NULL,
  PRIMARY KEY (position)
);;

CREATE TABLE witnesses (
  position BIGINT NOT NULL,
  head BYTEA NOT NULL,
  PRIMARY KEY (position)
);;

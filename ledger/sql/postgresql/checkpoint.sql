CREATE TABLE projections (
  generation BIGINT NOT NULL,
  version BIGINT NOT NULL,
  position BIGINT NOT NULL,
  live BIGINT NOT NULL,
  PRIMARY KEY (generation)
);;

.PHONY: lint types test soak bench sql docs prices

lint:
	ruff check .
	ruff format --check .
	lint-imports

types:
	mypy

test:
	pytest -n auto

# The same tests with the full counts, at most 40 minutes; TALLYBOOK_SOAK_SHARE=0.1 runs a tenth of them.
soak:
	TALLYBOOK_SOAK=1 pytest -n auto -m "soak or not soak"

bench:
	python benchmarks/run.py

# Freeze the statements and the fresh-database script that SQLAlchemy Core writes.
sql:
	python -m ledger.sql.freeze

docs:
	python -m ledger.events.document

prices:
	python -m ledger.prices.build

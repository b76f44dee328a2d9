import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.consequence import SCHEMA, Consequence, consequence_of

CATALOGUE = json.loads((Path(__file__).parents[2] / "data" / "catalogue.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("tool", CATALOGUE, ids=[tool["name"] for tool in CATALOGUE])
def test_every_catalogued_tool_has_its_published_consequence(tool: dict[str, object]) -> None:
    published = tool["consequence"]
    assert isinstance(published, dict)
    assert json.loads(json.dumps(consequence_of(str(tool["name"])).as_metadata())) == {"schema": SCHEMA, **published}


@pytest.mark.parametrize(
    ("words", "domain"),
    [
        ("calendar meeting invite attendee email mail recipient schedule", "email_calendar"),
        ("crm customer account opportunity deal invoice refund payment billing", "crm_customer"),
        ("github git commit branch pull_request deploy test route api", "code"),
        ("file path document drive sharepoint s3 bucket folder", "file"),
        ("sync mirror promote tenant", "sync"),
        ("fact session memory constraint receipt", "memory"),
        ("extension manifest wasm", "extension"),
        ("hello", "general"),
    ],
)
def test_a_word_of_a_domain_names_it(words: str, domain: str) -> None:
    assert {consequence_of(word).domain for word in words.split()} == {domain}


@pytest.mark.parametrize(
    ("text", "domain"),
    [("open a pull request", "code"), ("a tool invoke", "extension"), ("git mail", "email_calendar")],
)
def test_the_first_domain_of_the_table_wins_and_phrases_count(text: str, domain: str) -> None:
    assert consequence_of("x", text).domain == domain


@pytest.mark.parametrize(
    ("words", "materiality"),
    [
        ("money charge credit", ("touches_money",)),
        ("invoice refund payment billing", ("touches_customer_data", "touches_money")),
        ("crm account opportunity deal", ("touches_customer_data",)),
        ("customer", ("touches_customer_data", "touches_pii")),
        ("production prod deploy release live", ("touches_production",)),
        ("send publish external", ("creates_external_obligation",)),
        ("calendar invite schedule", ("creates_external_obligation",)),
        ("customer-facing", ("creates_external_obligation", "touches_customer_data", "touches_pii")),
        ("email attendee recipient", ("creates_external_obligation", "touches_pii")),
        ("user pii personal", ("touches_pii",)),
        ("private session passport memory", ("local_private_memory",)),
    ],
)
def test_every_sort_of_materiality_that_applies_is_listed(words: str, materiality: tuple[str, ...]) -> None:
    assert {consequence_of(word).materiality for word in words.split()} == {materiality}


@pytest.mark.parametrize(
    ("text", "blast_radius"),
    [
        ("cross_tenant", "cross_tenant"),
        ("mail all tenants", "cross_tenant"),
        ("global", "cross_tenant"),
        ("send to the team", "external"),
        ("calendar", "external"),
        ("deal", "external"),
        ("tenant", "tenant"),
        ("team", "tenant"),
        ("workspace", "tenant"),
        ("project", "tenant"),
        ("sync", "tenant"),
        ("promote", "tenant"),
        ("hello", "self_only"),
    ],
)
def test_the_widest_blast_radius_wins(text: str, blast_radius: str) -> None:
    assert consequence_of("x", text).blast_radius == blast_radius


@pytest.mark.parametrize(
    ("text", "reversibility", "idempotency"),
    [
        ("delete", "irreversible", "must_not_retry"),
        ("destroy", "irreversible", "requires_key"),
        ("drop", "irreversible", "requires_key"),
        ("purge", "irreversible", "requires_key"),
        ("wipe the list", "irreversible", "safe"),
        ("charge", "irreversible", "must_not_retry"),
        ("refund", "irreversible", "must_not_retry"),
        ("send", "irreversible", "must_not_retry"),
        ("create", "reversible_with_compensation", "requires_key"),
        ("update", "reversible_with_compensation", "requires_key"),
        ("move", "reversible_with_compensation", "requires_key"),
        ("rename", "reversible_with_compensation", "requires_key"),
        ("promote", "reversible_with_compensation", "requires_key"),
        ("deploy", "reversible_with_compensation", "must_not_retry"),
        ("publish", "reversible_with_compensation", "must_not_retry"),
        ("passport", "reversible_with_compensation", "requires_key"),
        ("get passport", "reversible_with_compensation", "safe"),
        ("read", "reversible", "safe"),
        ("get", "reversible", "safe"),
        ("list", "reversible", "safe"),
        ("query", "reversible", "safe"),
        ("scan", "reversible", "safe"),
        ("preview", "reversible", "safe"),
        ("status", "reversible", "safe"),
        ("hello", "unknown", "unknown"),
    ],
)
def test_reversibility_and_idempotency_follow_the_verb(text: str, reversibility: str, idempotency: str) -> None:
    found = consequence_of("x", text)
    assert (found.reversibility, found.idempotency_class) == (reversibility, idempotency)


@pytest.mark.parametrize(
    ("text", "compensating_tool"),
    [
        ("create", "Do_It.delete_or_archive"),
        ("add or move", "Do_It.delete_or_archive"),
        ("update", "Do_It.restore_previous_state"),
        ("move", "Do_It.restore_previous_state"),
        ("rename and publish", "Do_It.restore_previous_state"),
        ("deploy", "Do_It.rollback"),
        ("publish", "Do_It.rollback"),
        ("promote", "Do_It.rollback"),
        ("hello", None),
    ],
)
def test_what_undoes_a_call_is_a_label_on_the_tool_as_it_is_spelt(text: str, compensating_tool: str | None) -> None:
    assert consequence_of("Do_It", text).compensating_tool == compensating_tool


def test_without_a_text_the_name_decides_in_any_case() -> None:
    assert consequence_of("Create_Invoice") == Consequence(
        domain="crm_customer",
        reversibility="reversible_with_compensation",
        materiality=("touches_customer_data", "touches_money"),
        idempotency_class="requires_key",
        blast_radius="external",
        compensating_tool="Create_Invoice.delete_or_archive",
        pro_enricher_available=True,
    )


def test_a_text_is_taken_as_it_is() -> None:
    assert consequence_of("delete", "DELETE").reversibility == "unknown"


@given(st.text(alphabet="abcdefghilmnoprstuvy_ ", max_size=200))
def test_metadata_starts_with_its_schema_and_leaves_out_what_there_is_not(text: str) -> None:
    found = consequence_of("tool", text)
    keys = list(found.as_metadata())
    assert keys[0] == "schema"
    assert ("compensating_tool" in keys) == (found.compensating_tool is not None)
    assert list(found.materiality) == sorted(set(found.materiality))

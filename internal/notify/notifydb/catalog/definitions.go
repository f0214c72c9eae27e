package catalog

import (
	"context"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

// definitionTables are where the definitions of clients are: the columns that are counted, and which
// rows are a client's. Rows cost something even if they are empty.
var definitionTables = []struct{ table, columns, where string }{
	{"notify_clients", "octet_length(description)", "id = ?"},
	{"notify_kinds", "octet_length(id) + octet_length(description) + octet_length(workflow) + " +
		"octet_length(digest) + octet_length(throttle)",
		"client_id = ?"},
	{"notify_schemas", "octet_length(content)", "client_id = ?"},
	{"notify_templates", templateBytes, "creator = ?"},
	{"notify_templates", templateBytes, "owner = ?"},
	{"notify_partials", "octet_length(name) + octet_length(text) + octet_length(html) + octet_length(variants)",
		"owner = ?"},
	{"notify_template_versions", versionBytes, "client = ?"},
	{"notify_senders", "octet_length(name)", "client_id = ?"},
	{"notify_destinations", "octet_length(url) + octet_length(secret)", "client_id = ?"},
	{"notify_providers", "octet_length(definition) + octet_length(secrets)", "owner = ?"},
	{"notify_recurring", "octet_length(name) + octet_length(message)", "client_id = ?"},
	{"notify_origins", "octet_length(origin)", "client_id = ?"},
	{"notify_topics", "octet_length(name) + octet_length(description)", "client_id = ?"},
	{"notify_campaign_types", "octet_length(name) + octet_length(description)", "client_id = ?"},
}

const (
	templateBytes = "octet_length(name) + octet_length(subject) + octet_length(text) + octet_length(html) + " +
		"octet_length(metadata) + octet_length(variants)"
	versionBytes = "octet_length(name) + octet_length(subject) + octet_length(text) + octet_length(html) + " +
		"octet_length(metadata) + octet_length(variants)"
	// definitionOverhead is what a row takes.
	definitionOverhead = 256
)

// definitions returns the bytes that a client defined.
func definitions(tx *db.Tx, client string) (int64, error) {
	if client == "" { // nobody's, such as the default templates
		return 0, nil
	}
	statement, args := "", []any{}
	for i, of := range definitionTables {
		if i > 0 {
			statement += " UNION ALL "
		}
		statement += "SELECT CAST(COALESCE(SUM(" + of.columns + " + ?), 0) AS BIGINT) AS n FROM " + of.table +
			" WHERE " + of.where
		args = append(args, definitionOverhead, client)
	}
	return query.One(tx, query.ScanNumber, "SELECT CAST(SUM(n) AS BIGINT) FROM ("+statement+") AS sizes", args...)
}

// Define runs a change of the definitions of a client, and undoes it if they become too large.
func (s *Catalog) Define(ctx context.Context, client string, change func(*db.Tx) error) error {
	return s.Write(ctx, func(tx *db.Tx) error {
		if err := change(tx); err != nil {
			return err
		}
		return s.CheckDefinitions(tx, client)
	})
}

// CheckDefinitions fails if the definitions of a client are too large.
func (s *Catalog) CheckDefinitions(tx *db.Tx, client string) error {
	limit := s.bounds.Definitions
	if limit < 0 {
		return nil
	}
	n, err := definitions(tx, client)
	if err == nil && n > limit {
		if err = forgetVersions(tx, client, n-limit); err == nil {
			n, err = definitions(tx, client)
		}
	}
	if err == nil && n > limit {
		return notify.Stored{Definitions: n, Bounds: s.bounds}.DefinitionsFull(client)
	}
	return err
}

// Definitions returns the bytes that a client defined.
func (s *Catalog) Definitions(ctx context.Context, client string) (int64, error) {
	return query.Read(ctx, s.db, func(tx *db.Tx) (int64, error) { return definitions(tx, client) })
}

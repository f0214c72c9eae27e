// Package authdb implements auth.Store, the store of the authorization server,
// on SQLite and PostgreSQL, with its schema migrations.
//
// There is one file per resource. list.go is shared by all lists: it compiles a
// SCIM filter and a sort order to SQL and reads one page. Every method is one
// transaction, except Purge, which runs many small ones.
//
// Where the contract of auth.Store leaves a choice, this implementation does the
// following:
//
//   - Names are compared with A to Z folded to lower case, and otherwise
//     exactly. Group names are unique in this sense too.
//   - Text that no database can store (a NUL byte, or invalid UTF-8) matches
//     nothing: looking it up returns ErrNotFound, filtering by it a
//     *scim.ValueError, and storing it fails with db.ErrText.
//   - Empty lists are nil, times are in UTC, the members of a group are sorted
//     by id.
//   - SaveCode, SaveSession and SaveRefresh replace an entry with the same key, but a
//     used code stays used and a rotated token stays rotated. They return ErrNotFound
//     when the user or client no longer exists, so that they cannot undo a deletion.
//   - Deleting a session, family or key that does not exist is not an error.
//   - An attribute without a value sorts last, or first when descending, as
//     SCIM requires. Equal values are sorted by id, in the same direction.
//
// It must not import a driver, another store, or an HTTP API. Only system and
// tests import it.
//
// Imports: auth, auth/scim, base/db.
package authdb

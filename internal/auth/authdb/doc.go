// Package authdb is the store of the authorization server on SQLite and
// PostgreSQL: it implements auth.Store, and brings the tables it needs.
//
// One file holds one noun. list.go is what all lists share: it compiles a SCIM
// filter and an order to SQL and reads one page. All methods are one
// transaction, but for Purge, which is many small ones.
//
// What the contract of auth.Store leaves open, here is so:
//
//   - Names are compared with A to Z taken as a to z and are otherwise exact.
//     Group names are unique in this sense too.
//   - Text that no database can hold (a NUL byte, or no UTF-8) is the name of
//     nothing: looking it up is ErrNotFound, filtering by it a *scim.ValueError,
//     and storing it fails with db.ErrText.
//   - Empty lists come back as nil, times in UTC, a group's members by id.
//   - SaveCode, SaveSession and SaveRefresh replace what has the same key, but a
//     used code stays used and a rotated token rotated. They return ErrNotFound
//     when the user or client is gone, so that a deletion cannot be outrun.
//   - Deleting a session, family or key that is not there is no error.
//   - An attribute without a value sorts last, or first when descending, as
//     SCIM has it. Equal ones come by id, in the same direction.
//
// It must not import a driver, another store, or anything that faces users.
// Nobody but system and tests imports it.
//
// Imports: auth, auth/scim, base/db.
package authdb

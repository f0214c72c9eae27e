// Package platformdb implements platform.Store on SQLite and PostgreSQL, and
// holds the migrations for its tables.
//
// Every type is described by one table[T]: its columns, the fields a query may
// name, and who sees it. tenancy.go, routing.go, apps.go, artifacts.go and
// operations.go hold the descriptors; column.go says how a field is stored,
// query.go turns a platform.Query into SQL, repo.go runs it, derived.go has the
// lookup tables, and visibility.go the rules for what a reader sees. A field is
// every column that is not a list, a map or a secret, and what a descriptor
// calls virtual.
//
// Where the contract of platform.Store leaves a choice, this package behaves so:
//
//   - Names of organizations, spaces, apps, domains, buildpacks and stacks, and
//     hosts of routes, are compared with A to Z folded to lower case, also in
//     queries and order. All other text is exact.
//   - What is absent is the zero value: an empty text, 0, the zero time. It
//     equals itself, comes before all others, and is what OpNull matches.
//     A time that is not set is therefore before now.
//   - Empty lists and maps come back as nil, times in UTC. Numbers inside the
//     data of an audit event come back as json.Number.
//   - A virtual field that leads to many, such as a route's app_guid, matches
//     when any does, and with OpNotIn when none does. It cannot be ordered by.
//   - A label that is absent matches LabelNotIn, as in Cloud Foundry.
//   - Equal rows of an order come by guid, in the same direction. Times given by
//     Insert and Update never repeat within one process.
//   - Text that no database can hold (a NUL byte, or no UTF-8) matches nothing,
//     and storing it fails with fault.Unprocessable.
//   - After fault.Conflict the transaction is lost, as after any statement that
//     failed: return from it.
//   - Nothing is deleted but what was asked for: what belongs to it is the
//     caller's to delete, in the same transaction. DeleteAll ignores order and page.
//   - An EnvGroup that was never set is empty. The store sets UpdatedAt of flags and
//     groups.
//   - An unknown field, or a value of another type, is a programming error: the
//     error has no code.
//
// It must not import a driver, another store, or the API. Only system, bench and
// tests import it.
//
// Imports: base/background, base/db, base/fault, platform, platform/series,
// github.com/google/uuid.
package platformdb

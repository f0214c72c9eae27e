// Package scim parses the SCIM filter language as Cloud Foundry's UAA
// implements it (`filter=userName eq "marissa" and active eq true`) and compiles a
// filter into a condition for a SQL WHERE clause.
//
// [Parse] returns a tree of [And], [Or], [Not] and [Compare] nodes. A [Schema]
// says which attributes a resource type has and where they are stored;
// [Schema.Where] compiles a tree against it. [Matches] evaluates the same tree
// in memory and is the reference that the compiled SQL is tested against.
//
// # Language
//
//	filter  = filter "or" filter | filter "and" filter
//	        | "not" "(" filter ")" | "(" filter ")"
//	        | attr op value | attr "pr"
//	op      = "eq" | "ne" | "co" | "sw" | "ew" | "gt" | "ge" | "lt" | "le"
//	value   = string | number | "true" | "false" | "null"
//
// "not" binds tighter than "and", "and" tighter than "or". Keywords and
// attribute names ignore case. Strings are JSON strings; single quotes work as
// well as double quotes. The limits [MaxLength], [MaxComparisons] and
// [MaxNesting] keep a hostile filter cheap to reject.
//
// # Absent attributes
//
// Logic has two values, unlike SQL's three. Comparing an attribute that has no
// value is false, and "ne" is exactly the opposite of "eq", so it is true for
// an absent attribute. `attr eq null` means the same as `not (attr pr)`. An
// empty string is a value: it is present.
//
// # Databases
//
// The SQL runs unchanged on SQLite and PostgreSQL. Both give the same results
// only with two settings that this package cannot make itself:
//
//   - SQLite connections need `PRAGMA case_sensitive_like=ON`, or "co", "sw"
//     and "ew" ignore case on [Text] columns.
//   - PostgreSQL text columns need COLLATE "C", in the table's definition or in
//     [Column].SQL. Otherwise LOWER also folds characters outside ASCII, which
//     SQLite does not, and "gt", "ge", "lt" and "le" follow the database's locale.
//
// It must not import a database driver: it produces text and arguments and
// never runs a query.
//
// Imports: the standard library only.
package scim

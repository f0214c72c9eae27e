package query

import (
	"encoding/json"
	"strings"

	"ingot/internal/base/db"
	"ingot/internal/notify"
)

// LowerASCII is what lower does in SQLite, and in PostgreSQL with the collation C.
func LowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// IndexIn returns an expression: where a text, its argument, is in a column; 0 if it is not.
func IndexIn(d db.Dialect, column string) string {
	if d == db.Postgres {
		return "strpos(" + column + ", CAST(? AS TEXT))"
	}
	return "instr(" + column + ", ?)"
}

// Mentions returns a condition on a column with JSON that may name the person. It finds more than that, never less.
func Mentions(d db.Dialect, column string, p notify.Person) (string, []any) {
	var parts []string
	var args []any
	for _, name := range []string{p.UserID, p.Email} {
		if name == "" {
			continue
		}
		text, _ := json.Marshal(LowerASCII(name)) // it is a text
		lowered := "lower(" + column + ")"
		if d == db.Postgres {
			lowered = "lower(" + column + ` COLLATE "C")`
		}
		parts = append(parts, IndexIn(d, lowered)+" > 0")
		args = append(args, string(text))
	}
	return "(" + strings.Join(parts, " OR ") + ")", args
}

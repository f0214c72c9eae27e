package dump

import (
	"errors"
	"strconv"
	"strings"
)

// RestoreErrors reads the beginning and the end of what pg_restore writes about errors.
type RestoreErrors struct {
	first head
	last  tail
}

// Write implements io.Writer. It never fails.
func (r *RestoreErrors) Write(p []byte) (int, error) {
	_, _ = r.first.Write(p) // never fails
	return r.last.Write(p)
}

// Unreachable returns why the program could not connect to the server; nil if it could.
func (r *RestoreErrors) Unreachable() error {
	if strings.HasPrefix(string(r.first), "pg_restore: error: connection to server") {
		return errors.New(strings.TrimSpace(string(r.last)))
	}
	return nil
}

// Lost returns what could not be loaded.
func (r *RestoreErrors) Lost() (missing Lost) {
	const entry, failed, ignored = "pg_restore: from TOC entry ", "pg_restore: error: ",
		"pg_restore: warning: errors ignored on restore: "
	what, count := "data", 0
	for line := range strings.Lines(string(r.first)) {
		if name, ok := strings.CutPrefix(line, entry); ok {
			what = strings.Join(strings.Fields(name)[min(3, len(strings.Fields(name))):], " ") // after three numbers
		} else if why, ok := strings.CutPrefix(line, failed); ok {
			missing.Add(what, strings.TrimPrefix(why, "could not execute query: "))
			count++
		}
	}
	lines := strings.Split(strings.TrimSpace(string(r.last)), "\n")
	end := lines[len(lines)-1]
	all, ok := strings.CutPrefix(end, ignored)
	if !ok {
		missing.Add("what follows", end)
	} else if n, err := strconv.Atoi(all); err == nil {
		missing.more += max(0, n-count)
	}
	return missing
}

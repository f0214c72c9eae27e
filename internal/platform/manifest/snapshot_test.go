package manifest_test

import (
	"encoding/json"
	"strings"
	"time"

	"ingot/internal/platform"
)

// snapshot is all that manifests can change, as text: everything but the times
// of the last change, and the audit events.
func (f *fixture) snapshot() string {
	f.t.Helper()
	var out strings.Builder
	f.read(func(tx platform.Tx) error {
		out.Reset()
		for _, part := range []func() error{
			func() error { return rows(&out, tx.Apps()) },
			func() error { return rows(&out, tx.Processes()) },
			func() error { return rows(&out, tx.Sidecars()) },
			func() error { return rows(&out, tx.Routes()) },
			func() error { return rows(&out, tx.Destinations()) },
		} {
			if err := part(); err != nil {
				return err
			}
		}
		return nil
	})
	return out.String()
}

func rows[T any](out *strings.Builder, repo platform.Repo[T]) error {
	all, _, err := repo.List(platform.Query{})
	if err != nil {
		return err
	}
	for _, row := range all {
		if r, ok := any(row).(interface{ Base() *platform.Resource }); ok {
			r.Base().Updated = time.Time{}
		}
		text, err := json.Marshal(row)
		if err != nil {
			return err
		}
		out.Write(text)
		out.WriteByte('\n')
	}
	return nil
}

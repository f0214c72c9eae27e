package alerts

import (
	"log/slog"
	"os"
	"testing"

	"ingot/internal/base/datadir"
)

// The position that an older version left is used, also if a newer one ran before it.
func TestAlertsPosition(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"none":                       {nil, ""},
		"of this version":            {map[string]string{PositionFile: "new"}, "new"},
		"of an older version":        {map[string]string{OldPositionFile: "old"}, "old"},
		"of an older version, later": {map[string]string{PositionFile: "new", OldPositionFile: "old"}, "old"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := datadir.Open(t.TempDir(), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(dir.Close)
			for file, content := range c.files {
				if err := datadir.WriteFile(dir.File(file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			path, err := Position(dir)
			if err != nil || path != dir.File(PositionFile) {
				t.Fatalf("the position is in %s (%v), want %s", path, err, dir.File(PositionFile))
			}
			if got, _ := os.ReadFile(path); string(got) != c.want {
				t.Errorf("the position is %q, want %q", got, c.want)
			}
			if _, err := os.Stat(dir.File(OldPositionFile)); !os.IsNotExist(err) {
				t.Errorf("the old file: %v, want that it does not exist", err)
			}
		})
	}
}

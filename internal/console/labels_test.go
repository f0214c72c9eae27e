package console

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// On a phone the headings of a table are not visible, so each cell names its column.
func TestCellsNameTheirColumn(t *testing.T) {
	t.Parallel()
	table, cell := regexp.MustCompile(`(?s)<table.*?</table>`), regexp.MustCompile(`<td\b[^>]*>`)
	tables := 0
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".html") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, one := range table.FindAllString(string(text), -1) {
			tables++
			for _, td := range cell.FindAllString(one, -1) {
				if !strings.Contains(td, "data-label=") && !strings.Contains(td, "colspan=") {
					t.Errorf("%s: %s has no data-label", path, td)
				}
			}
		}
		return nil
	})
	if err != nil || tables < 20 {
		t.Errorf("found %d tables, %v", tables, err)
	}
}

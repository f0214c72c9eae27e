package archive_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"ingot/internal/platform/storage/archive"
)

// The same files give the same archive, and an archive is checked while it is read.
func ExampleWalkTar() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "Staticfile"), []byte("root: public\n"), 0o600); err != nil {
		panic(err)
	}
	var tar bytes.Buffer
	if err := archive.Tar(&tar, dir, archive.TarOptions{Modified: time.Unix(0, 0)}); err != nil {
		panic(err)
	}
	summary, err := archive.WalkTar(&tar, archive.Limits{Size: 1 << 20}, func(e archive.Entry, body io.Reader) error {
		if e.Kind == archive.File {
			content, err := io.ReadAll(body)
			fmt.Printf("%s: %q\n", e.Path, content)
			return err
		}
		return nil
	})
	fmt.Println(summary.Files, summary.Size, err)
	// Output:
	// Staticfile: "root: public\n"
	// 1 13 <nil>
}

package bits_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"ingot/internal/cli/bits"
)

// Scan leaves out what .cfignore excludes.
func ExampleScan() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{".cfignore": "*.log\n", "app.py": "print(1)\n", "debug.log": "…"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			panic(err)
		}
	}
	files, err := bits.Scan(context.Background(), dir)
	for _, f := range files {
		fmt.Println(f.Path, f.Size)
	}
	fmt.Println(err)
	// Output:
	// app.py 9
	// <nil>
}

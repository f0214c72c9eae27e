package console

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestThirdParty compares the files of other projects with the list of them.
func TestThirdParty(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("THIRD_PARTY.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| \\S+ [0-9.]+ \\| MIT \\| ([0-9a-f]{64}) \\|$").
		FindAllStringSubmatch(string(b), -1) {
		listed[m[1]] = true
		content, err := os.ReadFile("apps/assets/" + m[1])
		if err != nil {
			t.Error(err)
			continue
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != m[2] {
			t.Errorf("%s is not the listed version: its checksum is %x", m[1], sum)
		}
	}
	own := map[string]bool{"console.css": true, "console.js": true, "shell.js": true, "notifications.css": true,
		"notifications.js": true, "xterm-license.txt": true}
	names, err := filepath.Glob("*/assets/*")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if base := filepath.Base(name); !own[base] && !listed[base] {
			t.Errorf("%s is neither ours nor listed in THIRD_PARTY.md", name)
		}
	}
}

package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Local is a server on this machine.
type Local struct {
	API           string `json:"api"`
	Public        string `json:"public"` // the API for other machines, with TLS; may be empty
	Notifications string `json:"notifications"`
	PID           int    `json:"pid"`

	// Dir is its data directory.
	Dir string `json:"-"`
}

// FindLocal reads the addresses of the server with the given data directory.
func FindLocal(dir string) (*Local, error) {
	if dir == "" {
		return nil, os.ErrNotExist
	}
	content, err := os.ReadFile(filepath.Join(dir, "endpoints.json"))
	if err != nil {
		return nil, err
	}
	l := &Local{Dir: dir}
	if err := json.Unmarshal(content, l); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "endpoints.json"), err)
	}
	return l, nil
}

// Secret reads one of the server's initial secrets. It requires read access to
// the data directory.
func (l *Local) Secret(name string) (string, error) {
	content, err := os.ReadFile(filepath.Join(l.Dir, "secrets", name))
	return strings.TrimRight(string(content), "\n"), err
}

// The initial secrets of a server.
const (
	AdminPassword     = "admin-password"
	AdminClientSecret = "admin-client-secret"
)

package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Config is the client's saved state.
type Config struct {
	API               string `json:"api,omitempty"`
	APIVersion        string `json:"api_version,omitempty"`
	Links             Links  `json:"links,omitzero"`
	SkipSSLValidation bool   `json:"skip_ssl_validation,omitempty"`
	AccessToken       string `json:"access_token,omitempty"`
	RefreshToken      string `json:"refresh_token,omitempty"`
	Org               Named  `json:"org,omitzero"`
	Space             Named  `json:"space,omitzero"`
	// Local is the data directory of the server on this machine that was targeted
	// automatically. It is empty when the user chose a target.
	Local string `json:"local,omitempty"`
	// LocalPID is the process id of the server that the login belongs to.
	LocalPID int `json:"local_pid,omitempty"`
	// Notifications is the client that sends notifications.
	Notifications Notifications `json:"notifications,omitzero"`

	path string
}

// Links are the addresses in the root document of an API.
type Links struct {
	Login         string `json:"login,omitempty"`
	UAA           string `json:"uaa,omitempty"`
	LogCache      string `json:"log_cache,omitempty"`
	SSH           string `json:"app_ssh,omitempty"`
	SSHHostKey    string `json:"app_ssh_host_key,omitempty"`
	Notifications string `json:"notifications,omitempty"`
	// Public is the API's address for other machines, if a server on this machine has
	// TLS and the client uses it without.
	Public string `json:"public,omitempty"`
}

// Named is a name and a guid.
type Named struct {
	GUID string `json:"guid,omitempty"`
	Name string `json:"name,omitempty"`
}

// Notifications is the OAuth client that notifications are sent as.
type Notifications struct {
	Client string `json:"client,omitempty"`
	Secret string `json:"secret,omitempty"`
	// API is the API that the client belongs to.
	API string `json:"api,omitempty"`
}

// Path returns the path of the configuration file, or "" when the environment
// names no directory for it.
func Path(getenv func(string) string) string {
	switch {
	case getenv("INGOT_HOME") != "":
		return filepath.Join(getenv("INGOT_HOME"), "config.json")
	case filepath.IsAbs(getenv("XDG_CONFIG_HOME")):
		return filepath.Join(getenv("XDG_CONFIG_HOME"), "ingot", "config.json")
	case filepath.IsAbs(getenv("HOME")):
		return filepath.Join(getenv("HOME"), ".config", "ingot", "config.json")
	}
	return ""
}

// Load reads the file. A missing file is an empty configuration.
func Load(path string) (*Config, error) {
	c := &Config{path: path}
	if path == "" {
		return c, nil
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the client's configuration: %w", err)
	}
	if err := json.Unmarshal(content, c); err != nil {
		return nil, fmt.Errorf("the client's configuration %s is damaged (%w): remove the file and log in again", path, err)
	}
	return c, nil
}

// Path returns the path of the file.
func (c *Config) Path() string { return c.path }

// Save replaces the file. With two commands at once, one of the two versions
// remains, never a mixture.
func (c *Config) Save() error {
	if c.path == "" {
		return errors.New("no directory for the client's configuration: set INGOT_HOME or HOME")
	}
	if err := c.save(); err != nil {
		return fmt.Errorf("the client's configuration: %w", err)
	}
	return nil
}

func (c *Config) save() error {
	content, err := json.MarshalIndent(c, "", "  ") //nolint:gosec // only its owner can read the file, and it exists to keep the tokens
	if err != nil {
		return err
	}
	dir := filepath.Dir(c.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".config-*") // created with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, writeErr := f.Write(append(content, '\n'))
	if err := errors.Join(writeErr, f.Close()); err != nil {
		return err
	}
	return replace(f.Name(), c.path)
}

// Forget drops the login and everything that depends on it.
func (c *Config) Forget() {
	c.AccessToken, c.RefreshToken, c.Org, c.Space = "", "", Named{}, Named{}
	c.Notifications = Notifications{}
}

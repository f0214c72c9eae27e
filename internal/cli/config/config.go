package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Config is what is remembered.
type Config struct {
	API               string `json:"api,omitempty"`
	APIVersion        string `json:"api_version,omitempty"`
	Links             Links  `json:"links,omitzero"`
	SkipSSLValidation bool   `json:"skip_ssl_validation,omitempty"`
	AccessToken       string `json:"access_token,omitempty"`
	RefreshToken      string `json:"refresh_token,omitempty"`
	Org               Named  `json:"org,omitzero"`
	Space             Named  `json:"space,omitzero"`
	// Local is the data directory of the server on this machine that was found
	// without being asked for. Empty when the user chose a target.
	Local string `json:"local,omitempty"`
	// LocalPID is the process that this login is good for.
	LocalPID int `json:"local_pid,omitempty"`
	// Notifications is who sends notifications.
	Notifications Notifications `json:"notifications,omitzero"`

	path string
}

// Links are the addresses that an API told.
type Links struct {
	Login         string `json:"login,omitempty"`
	UAA           string `json:"uaa,omitempty"`
	LogCache      string `json:"log_cache,omitempty"`
	SSH           string `json:"app_ssh,omitempty"`
	SSHHostKey    string `json:"app_ssh_host_key,omitempty"`
	Notifications string `json:"notifications,omitempty"`
}

// Named is something with a name and a guid.
type Named struct {
	GUID string `json:"guid,omitempty"`
	Name string `json:"name,omitempty"`
}

// Notifications is the client of the authorization server that notifications
// are sent as.
type Notifications struct {
	Client string `json:"client,omitempty"`
	Secret string `json:"secret,omitempty"`
	// API is the one it belongs to.
	API string `json:"api,omitempty"`
}

// Path is where the file is, by the environment. It is empty when there is no
// good place.
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

// Load reads the file. One that is not there yet is an empty configuration.
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

// Path is where it is kept.
func (c *Config) Path() string { return c.path }

// Save replaces the file. Two commands at once leave one of the two versions,
// never a mixture.
func (c *Config) Save() error {
	if c.path == "" {
		return errors.New("nothing says where the client's configuration goes: set INGOT_HOME to a directory")
	}
	if err := c.save(); err != nil {
		return fmt.Errorf("the client's configuration: %w", err)
	}
	return nil
}

func (c *Config) save() error {
	content, err := json.MarshalIndent(c, "", "  ") //nolint:gosec // the file is its owner's alone, and the tokens are what it is for
	if err != nil {
		return err
	}
	dir := filepath.Dir(c.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".config-*") // made with 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, writeErr := f.Write(append(content, '\n'))
	if err := errors.Join(writeErr, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), c.path)
}

// Forget drops the login and what depends on it.
func (c *Config) Forget() {
	c.AccessToken, c.RefreshToken, c.Org, c.Space = "", "", Named{}, Named{}
	c.Notifications = Notifications{}
}

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v2"
)

// staticfile is the content of a Staticfile. The values "enabled", "visible" and
// true, which Cloud Foundry accepts, all mean true.
type staticfile struct {
	Root         string            `yaml:"root"`
	Directory    flag3             `yaml:"directory"`
	Pushstate    flag3             `yaml:"pushstate"`
	ForceHTTPS   flag3             `yaml:"force_https"`
	HostDotFiles flag3             `yaml:"host_dot_files"`
	HSTS         flag3             `yaml:"http_strict_transport_security"`
	HSTSSub      flag3             `yaml:"http_strict_transport_security_include_subdomains"`
	HSTSPreload  flag3             `yaml:"http_strict_transport_security_preload"`
	StatusCodes  map[string]string `yaml:"status_codes"`
	// Known but not supported: reported at staging.
	LocationInclude string `yaml:"location_include"`
	SSI             flag3  `yaml:"ssi"`
}

// flag3 is a boolean in any of the accepted spellings.
type flag3 bool

func (f *flag3) UnmarshalYAML(read func(any) error) error {
	var v any
	if err := read(&v); err != nil {
		return err
	}
	switch strings.ToLower(fmt.Sprint(v)) {
	case "true", "enabled", "enable", "visible", "yes", "on", "1":
		*f = true
	case "false", "disabled", "disable", "hidden", "no", "off", "0", "<nil>":
		*f = false
	default:
		return fmt.Errorf("%v is neither enabled nor disabled", v)
	}
	return nil
}

type config struct {
	root       string // relative to the application's directory
	listing    bool
	pushstate  bool
	forceHTTPS bool
	dotFiles   bool
	hsts       string         // value of the header
	pages      map[int]string // by status
	users      map[string]string
	notes      []string
}

func readConfig(file, auth string) (config, error) {
	var s staticfile
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return config{}, err
		}
		if err := yaml.Unmarshal(b, &s); err != nil {
			return config{}, fmt.Errorf("%s: %w", path.Base(file), err)
		}
	}
	c := config{
		root: strings.Trim(s.Root, "/"), listing: bool(s.Directory), pushstate: bool(s.Pushstate),
		forceHTTPS: bool(s.ForceHTTPS), dotFiles: bool(s.HostDotFiles), pages: map[int]string{},
	}
	if c.root == "" {
		c.root = "."
	}
	if !fs.ValidPath(path.Clean(c.root)) {
		return config{}, fmt.Errorf("Staticfile: root %q is outside of the application", s.Root)
	}
	c.root = path.Clean(c.root)
	if s.HSTS {
		c.hsts = "max-age=31536000"
		if s.HSTSSub || s.HSTSPreload {
			c.hsts += "; includeSubDomains"
		}
		if s.HSTSPreload {
			c.hsts += "; preload"
		}
	}
	for code, page := range s.StatusCodes {
		n, err := strconv.Atoi(code)
		if err != nil || n < 400 || n > 599 {
			return config{}, fmt.Errorf("Staticfile: status_codes: %q is no status of an error, 400 to 599", code)
		}
		c.pages[n] = strings.TrimPrefix(path.Clean("/"+page), "/")
	}
	if s.LocationInclude != "" {
		c.notes = append(c.notes, "location_include is for nginx and is not followed")
	}
	if s.SSI {
		c.notes = append(c.notes, "ssi (server-side includes) is not followed")
	}
	if auth != "" {
		var err error
		if c.users, err = readUsers(auth); err != nil {
			return config{}, err
		}
	}
	return c, nil
}

// summary describes the configuration for the staging log.
func (c config) summary() string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, "       "+format+"\n", args...) }
	say("Root folder: %s", c.root)
	for _, o := range []struct {
		on   bool
		text string
	}{
		{c.listing, "Directory listing on"},
		{c.pushstate, "Pushstate on: paths that do not exist are answered with index.html"},
		{c.forceHTTPS, "Plain HTTP is redirected to HTTPS"},
		{c.hsts != "", "Strict-Transport-Security: " + c.hsts},
		{c.dotFiles, "Files whose names begin with a dot are served"},
		{c.users != nil, fmt.Sprintf("Basic authentication for %d users", len(c.users))},
	} {
		if o.on {
			say("%s", o.text)
		}
	}
	for _, code := range slices.Sorted(maps.Keys(c.pages)) {
		say("Page of status %d: %s", code, c.pages[code])
	}
	for _, n := range c.notes {
		say("WARNING: %s", n)
	}
	return b.String()
}

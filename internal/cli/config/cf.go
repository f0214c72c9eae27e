package config

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// cfVersion is the format of the configuration of the cf CLI v8.
const cfVersion = 4

// cfFile has the members of the cf CLI's configuration that concern the target and the login.
type cfFile struct {
	ConfigVersion           int
	Target                  string
	APIVersion              string
	AuthorizationEndpoint   string
	UaaEndpoint             string
	LogCacheEndPoint        string
	DopplerEndPoint         string
	RoutingAPIEndpoint      string
	NetworkPolicyV1Endpoint string
	SSLDisabled             bool
	AccessToken             string
	RefreshToken            string
	UAAGrantType            string
	UAAOAuthClient          string
	UAAOAuthClientSecret    string
	OrganizationFields      struct{ GUID, Name string }
	SpaceFields             struct {
		GUID, Name string
		AllowSSH   bool
	}
	CFOnK8s struct {
		Enabled  bool
		AuthInfo string
	}
}

// cfPath returns the path of the cf CLI's configuration.
func cfPath(system string, getenv func(string) string) string {
	home := getenv("HOME")
	if system == "windows" {
		home = cmp.Or(getenv("HOMEDRIVE")+getenv("HOMEPATH"), getenv("USERPROFILE"))
	}
	if home = cmp.Or(getenv("CF_HOME"), home); home == "" {
		return ""
	}
	return filepath.Join(home, ".cf", "config.json")
}

// readCF reads the cf CLI's configuration: all of its members, and those that are used here.
// A missing or empty file has none.
func (s *Store) readCF() (all fields, known cfFile, err error) {
	all = fields{}
	if s.cf == "" {
		return all, known, nil
	}
	content, err := os.ReadFile(s.cf)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(strings.TrimSpace(string(content))) == 0 {
		return all, known, nil
	}
	if err != nil {
		return nil, known, fmt.Errorf("the configuration of the cf CLI: %w", err)
	}
	err = json.Unmarshal(content, &all)
	if err == nil {
		err = json.Unmarshal(content, &known)
	}
	switch {
	case err != nil:
		return nil, known, fmt.Errorf("the configuration of the cf CLI, %s, is damaged: %w", s.cf, err)
	case known.ConfigVersion > cfVersion:
		return nil, known, fmt.Errorf("the configuration of the cf CLI, %s, has ConfigVersion %d: it was written by a cf "+
			"newer than v8, whose ConfigVersion is %d, and is left as it is", s.cf, known.ConfigVersion, cfVersion)
	case known.ConfigVersion != cfVersion && len(all) > 0:
		return nil, known, fmt.Errorf("the configuration of the cf CLI, %s, has ConfigVersion %d: it was written by a cf "+
			"older than v8. 'cf api URL' of the cf CLI v8 replaces it", s.cf, known.ConfigVersion)
	}
	return all, known, nil
}

// loadCF reads the context of the cf CLI.
func (s *Store) loadCF(c *Config) error {
	_, known, err := s.readCF()
	if err != nil {
		return err
	}
	if known.CFOnK8s.Enabled {
		return fmt.Errorf("the cf CLI is logged in to %s with a Kubernetes identity, which ingot does not support",
			known.Target)
	}
	c.cf = known
	c.API, c.APIVersion, c.SkipSSLValidation = strings.TrimRight(known.Target, "/"), known.APIVersion, known.SSLDisabled
	trim := func(address string) string { return strings.TrimRight(address, "/") }
	c.Links = Links{
		Login: trim(known.AuthorizationEndpoint), UAA: trim(known.UaaEndpoint), LogCache: trim(known.LogCacheEndPoint),
		Logging: known.DopplerEndPoint, Routing: known.RoutingAPIEndpoint, Policies: known.NetworkPolicyV1Endpoint,
	}
	c.AccessToken, c.RefreshToken = known.AccessToken, known.RefreshToken
	if scheme, token, ok := strings.Cut(known.AccessToken, " "); ok && strings.EqualFold(scheme, "bearer") {
		c.AccessToken = token
	}
	if known.UAAOAuthClient != "cf" {
		c.Client = OAuthClient{ID: known.UAAOAuthClient, Secret: known.UAAOAuthClientSecret}
	}
	c.Org = Named{GUID: known.OrganizationFields.GUID, Name: known.OrganizationFields.Name}
	c.Space = Named{GUID: known.SpaceFields.GUID, Name: known.SpaceFields.Name}
	if c.API != "" {
		c.base, err = fieldsOf(c)
	}
	return err
}

// forCF returns a context as the cf CLI keeps it.
func (c *Config) forCF(before cfFile) cfFile {
	f := before
	f.ConfigVersion, f.Target, f.APIVersion, f.SSLDisabled = cfVersion, c.API, c.APIVersion, c.SkipSSLValidation
	f.AuthorizationEndpoint, f.UaaEndpoint, f.LogCacheEndPoint = c.Links.Login, c.Links.UAA, c.Links.LogCache
	f.DopplerEndPoint, f.RoutingAPIEndpoint = c.Links.Logging, c.Links.Routing
	f.NetworkPolicyV1Endpoint = c.Links.Policies
	f.AccessToken, f.RefreshToken, f.UAAGrantType = "", c.RefreshToken, "" // "" is that of a user
	if c.AccessToken != "" {
		f.AccessToken = "bearer " + c.AccessToken
	}
	if c.Client.ID != "" && c.RefreshToken == "" {
		f.UAAGrantType = "client_credentials"
	}
	f.UAAOAuthClient, f.UAAOAuthClientSecret = cmp.Or(c.Client.ID, "cf"), c.Client.Secret
	f.OrganizationFields = struct{ GUID, Name string }{c.Org.GUID, c.Org.Name}
	f.SpaceFields.GUID, f.SpaceFields.Name = c.Space.GUID, c.Space.Name
	f.CFOnK8s.Enabled, f.CFOnK8s.AuthInfo = false, ""
	return f
}

// saveCF writes what changed in the context of the cf CLI. The other members of its
// configuration stay.
func (s *Store) saveCF(c *Config, allowed func(fields) bool) error {
	return s.updateCF(func(have *Config, all fields) error {
		now, err := fieldsOf(have)
		if err != nil || !allowed(now) {
			return err
		}
		next := c.forCF(c.cf)
		err = mergeCF(all, c.cf, next)
		c.cf = next
		return err
	})
}

// Export writes a context into the cf CLI's configuration, in place of its target and login.
func (s *Store) Export(c *Config) error {
	return s.updateCF(func(have *Config, all fields) error {
		return mergeCF(all, cfFile{}, c.forCF(have.cf))
	})
}

// mergeCF applies the changes between two states of the configuration.
func mergeCF(all fields, before, next cfFile) error {
	was, err := fieldsOf(before)
	if err != nil {
		return err
	}
	now, err := fieldsOf(next)
	if err == nil {
		if before.ConfigVersion == 0 {
			was = nil // all of it is new
		}
		all.merge(was, now)
	}
	return err
}

// updateCF changes the cf CLI's configuration.
func (s *Store) updateCF(change func(have *Config, all fields) error) error {
	if s.cf == "" {
		return errors.New("no directory for the configuration of the cf CLI: set CF_HOME or HOME")
	}
	unlock, err := s.lock(context.Background(), "")
	if err != nil {
		return fmt.Errorf("the client's configuration: %w", err)
	}
	defer unlock()
	all, known, err := s.readCF()
	if err != nil {
		return err
	}
	have := &Config{store: s, name: CFName}
	if err := s.loadCF(have); err != nil && !known.CFOnK8s.Enabled {
		return err
	}
	have.cf = known
	if len(all) == 0 { // as the cf CLI begins
		all["PluginRepos"] = json.RawMessage(`[{"Name": "CF-Community", "URL": "https://plugins.cloudfoundry.org"}]`)
	}
	if err := change(have, all); err != nil {
		return err
	}
	content, err := json.MarshalIndent(all, "", "  ")
	if err == nil {
		err = writeFile(s.cf, content)
	}
	if err != nil {
		return fmt.Errorf("the configuration of the cf CLI: %w", err)
	}
	return nil
}

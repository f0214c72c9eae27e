package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/cli/config"
)

// user is a user with a home directory.
type user struct{ home string }

func newUser(t *testing.T) user {
	t.Helper()
	return user{t.TempDir()}
}

func (u user) store() *config.Store {
	return config.Open(func(name string) string {
		return map[string]string{"INGOT_HOME": u.home, "CF_HOME": u.home}[name]
	})
}

func (u user) load(t *testing.T, name string) *config.Config {
	t.Helper()
	c, err := u.store().Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (u user) write(t *testing.T, content string, path ...string) string {
	t.Helper()
	file := filepath.Join(append([]string{u.home}, path...)...)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func save(t *testing.T, c *config.Config) {
	t.Helper()
	if err := c.Save(); err != nil {
		t.Fatal(err)
	}
}

// A file from before there were contexts keeps its login.
func TestSingleLoginBecomesAContext(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ file, want string }{
		"chosen": {`{"api": "https://api.cf.example.com", "access_token": "a", "refresh_token": "r",
			"org": {"guid": "g", "name": "acme"}}`, "cf.example.com"},
		"with a port":    {`{"api": "http://127.0.0.1:8080", "access_token": "a", "refresh_token": "r", "org": {"name": "acme"}}`, "127.0.0.1-8080"},
		"over IPv6":      {`{"api": "http://[::1]:8080", "access_token": "a", "refresh_token": "r", "org": {"name": "acme"}}`, "1-8080"},
		"named cf":       {`{"api": "https://cf", "access_token": "a", "refresh_token": "r", "org": {"name": "acme"}}`, "server"},
		"of the machine": {`{"api": "http://127.0.0.1:1", "local": "/data", "access_token": "a", "refresh_token": "r", "org": {"name": "acme"}}`, "local"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t)
			file := u.write(t, tc.file, "config.json")
			c := u.load(t, "")
			if c.Name() != tc.want || c.AccessToken != "a" || c.RefreshToken != "r" || c.Org.Name != "acme" {
				t.Fatalf("context %s: %+v, want %s with its login", c.Name(), c, tc.want)
			}
			c.Space.Name = "dev"
			save(t, c)
			if again := u.load(t, ""); again.Name() != tc.want || again.RefreshToken != "r" || again.Space.Name != "dev" {
				t.Errorf("after it was saved: %s %+v", again.Name(), again)
			}
			testkit.CheckMode(t, file, 0o600)
		})
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		`{"version": 3}`: "newer version", `{"api": `: "damaged", `{"version": 2, "contexts": 7}`: "damaged",
		`{"version": 2, "current": "x", "contexts": {"x": {"api": 7}}}`: "context x",
	} {
		u := newUser(t)
		file := u.write(t, content, "config.json")
		c, err := u.store().Load("")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %q", content, c, err, want)
		}
		if err := u.store().Use("other"); strings.Contains(content, "contexts\": {") == (err != nil) {
			t.Errorf("%s: select another context: %v", content, err)
		}
		if after, err := os.ReadFile(file); err != nil || !strings.Contains(content, "contexts\": {") &&
			string(after) != content {
			t.Errorf("%s became %s (%v)", content, after, err)
		}
	}
}

// Commands that run at once change different things, and none is lost.
func TestSavesAtOnce(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	first := u.load(t, "prod")
	first.API, first.AccessToken, first.RefreshToken = "https://api.test", "old", "old-r"
	save(t, first)
	var all sync.WaitGroup
	errs := make(chan error, 100)
	for i := range 20 {
		mine := u.load(t, fmt.Sprintf("other-%d", i)) // each has its own context
		all.Go(func() {
			mine.API = fmt.Sprintf("https://%d.test", i)
			errs <- mine.Save()
		})
	}
	target, login := u.load(t, "prod"), u.load(t, "prod")
	all.Go(func() {
		target.Org, target.Space = config.Named{Name: "acme"}, config.Named{Name: "dev"}
		errs <- target.Save()
	})
	all.Go(func() {
		login.AccessToken, login.RefreshToken = "new", "new-r"
		errs <- login.SaveLogin(login.API, "old-r")
	})
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if c := u.load(t, ""); c.Name() != "prod" || c.Space.Name != "dev" || c.AccessToken != "new" ||
		c.RefreshToken != "new-r" {
		t.Errorf("%s: %+v", c.Name(), c)
	}
	if found, err := u.store().Contexts(); err != nil || len(found) != 21 {
		t.Errorf("%d contexts, want 21 (%v)", len(found), err)
	}
}

// A command that renews a login does not overwrite a newer one, and does not bring back a
// context that was removed.
func TestRenewedTooLate(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	c := u.load(t, "prod")
	c.API, c.RefreshToken = "https://api.test", "first"
	save(t, c)
	late, removed := u.load(t, "prod"), u.load(t, "prod")
	c.RefreshToken = "of another user"
	save(t, c)
	late.RefreshToken = "renewed"
	if err := late.SaveLogin(late.API, "first"); err != nil {
		t.Fatal(err)
	}
	if got := u.load(t, "prod").RefreshToken; got != "of another user" {
		t.Errorf("the refresh token is %q", got)
	}
	if err := u.store().Remove("prod"); err != nil {
		t.Fatal(err)
	}
	removed.RefreshToken = "renewed"
	save(t, removed)
	if all, err := u.store().Contexts(); err != nil || len(all) != 0 {
		t.Errorf("contexts after the removal: %v (%v)", all, err)
	}
}

// A link to the file, as some keep their settings, stays a link.
func TestLinkedFile(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	file := u.write(t, "{}", "elsewhere", "settings.json")
	if err := os.Symlink(file, filepath.Join(u.home, "config.json")); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	c := u.load(t, "prod")
	c.API = "https://api.test"
	save(t, c)
	if content, err := os.ReadFile(file); err != nil || !strings.Contains(string(content), "https://api.test") {
		t.Errorf("%s (%v)", content, err)
	}
}

func TestContextNames(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"prod": true, "cf.example.com-8443": true, "": false, "local": false, "cf": false, "a b": false, "-x": false,
		"../x": false, strings.Repeat("x", 64): false,
	} {
		if err := config.CheckName(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}

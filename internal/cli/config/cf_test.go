package config_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/cli/config"
)

func TestCFPath(t *testing.T) {
	t.Parallel()
	const unset = ""
	for _, tc := range []struct {
		system string
		env    map[string]string
		want   string
	}{
		{"linux", map[string]string{"HOME": "/home/joe", "USERPROFILE": "/no"}, "/home/joe"},
		{"darwin", map[string]string{"HOME": "/Users/joe", "CF_HOME": "/other"}, "/other"},
		{"windows", map[string]string{"HOME": `C:\msys\joe`, "USERPROFILE": `C:\Users\joe`}, `C:\Users\joe`},
		{"windows", map[string]string{"HOMEDRIVE": "H:", "HOMEPATH": `\joe`, "USERPROFILE": `C:\Users\joe`}, `H:\joe`},
		{"linux", nil, unset},
	} {
		want := tc.want
		if want != unset {
			want = filepath.Join(want, ".cf", "config.json")
		}
		if got := config.CFPath(tc.system, func(name string) string { return tc.env[name] }); got != want {
			t.Errorf("%s, %v: %q, want %q", tc.system, tc.env, got, want)
		}
	}
}

const ofCF = `{
  "ConfigVersion": 4, "Target": "https://api.test", "APIVersion": "3.200.0", "AuthorizationEndpoint": "https://login.test/",
  "UaaEndpoint": "https://uaa.test", "LogCacheEndPoint": "https://log-cache.test", "DopplerEndPoint": "wss://doppler.test",
  "RoutingAPIEndpoint": "https://api.test/routing", "NetworkPolicyV1Endpoint": "https://api.test/networking/v1/external",
  "AccessToken": "bearer access", "RefreshToken": "refresh", "SSLDisabled": true, "UAAOAuthClient": "cf",
  "UAAOAuthClientSecret": "", "UAAGrantType": "", "OrganizationFields": {"GUID": "o", "Name": "acme"},
  "SpaceFields": {"GUID": "s", "Name": "dev", "AllowSSH": true}, "CFOnK8s": {"Enabled": false, "AuthInfo": ""},
  "PluginRepos": [{"Name": "mine", "URL": "https://plugins.test"}], "ColorEnabled": "true", "Locale": "de-DE",
  "AsyncTimeout": 12345678901234567890, "SomethingNew": {"a": [1, 2]}, "MinCLIVersion": "8.0.0"
}`

func object(t *testing.T, file string) map[string]any {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(content)))
	d.UseNumber()
	var out map[string]any
	if err := d.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// The context cf is the cf CLI's configuration: saving it changes what changed, and nothing else.
func TestContextOfTheCFCLI(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	file := u.write(t, ofCF, ".cf", "config.json")
	mode := os.FileMode(0o640)
	if runtime.GOOS == "windows" {
		mode = 0o600 // it has no other
	}
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
	want := object(t, file)
	c := u.load(t, config.CFName)
	if c.API != "https://api.test" || c.AccessToken != "access" || c.RefreshToken != "refresh" || !c.SkipSSLValidation ||
		c.Org.Name != "acme" || c.Space.GUID != "s" || c.Links.Login != "https://login.test" || c.Err() != nil {
		t.Fatalf("%+v", c)
	}
	c.AccessToken, c.RefreshToken, c.Space = "newer", "newer-r", config.Named{GUID: "s2", Name: "test"}
	save(t, c)
	want["AccessToken"], want["RefreshToken"] = "bearer newer", "newer-r"
	want["SpaceFields"] = map[string]any{"GUID": "s2", "Name": "test", "AllowSSH": true}
	got := object(t, file)
	for name, value := range want {
		if !reflect.DeepEqual(got[name], value) && name != "AuthorizationEndpoint" {
			t.Errorf("%s is %v, want %v", name, got[name], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("members: %v, want %v", got, want)
	}
	testkit.CheckMode(t, file, mode)
	if _, err := os.Stat(filepath.Join(u.home, "config.json")); err == nil {
		t.Error("the login of the cf CLI was written to the client's own file")
	}
	c.Forget()
	save(t, c)
	if got := object(t, file); got["AccessToken"] != "" || got["RefreshToken"] != "" || got["Locale"] != "de-DE" {
		t.Errorf("after the logout: %v", got)
	}
}

// A configuration of another version of the cf CLI is neither used nor changed.
func TestCFConfigurationsThatAreRefused(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		`{"ConfigVersion": 5, "Target": "https://api.test"}`: "newer than v8",
		`{"ConfigVersion": 3, "Target": "https://api.test"}`: "older than v8",
		`{"ConfigVersion": `: "damaged", `[]`: "damaged",
		`{"ConfigVersion": 4, "Target": "https://api.test", "CFOnK8s": {"Enabled": true}}`: "Kubernetes identity",
	} {
		u := newUser(t)
		file := u.write(t, content, ".cf", "config.json")
		c := u.load(t, config.CFName)
		if c.Err() == nil || !strings.Contains(c.Err().Error(), want) || c.API != "" {
			t.Errorf("%s: %v, %+v", content, c.Err(), c)
		}
		c.API = "https://other.test"
		if err := c.Save(); err == nil {
			t.Errorf("%s: it was saved", content)
		}
		other := u.load(t, "prod")
		other.API = "https://other.test"
		if err := u.store().Export(other); (err == nil) != strings.Contains(content, "CFOnK8s") {
			t.Errorf("%s: export: %v", content, err)
		}
		if after, err := os.ReadFile(file); err != nil || string(after) != content && !strings.Contains(content, "CFOnK8s") {
			t.Errorf("%s became %s (%v)", content, after, err)
		}
	}
}

// A client that is logged in to the cf CLI keeps its secret there, and can renew its login.
func TestClientOfTheCFCLI(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	file := u.write(t, strings.NewReplacer(`"UAAOAuthClient": "cf"`, `"UAAOAuthClient": "robot"`, `"UAAOAuthClientSecret": ""`,
		`"UAAOAuthClientSecret": "s3cret"`, `"UAAGrantType": ""`, `"UAAGrantType": "client_credentials"`,
		`"RefreshToken": "refresh"`, `"RefreshToken": ""`).Replace(ofCF), ".cf", "config.json")
	c := u.load(t, config.CFName)
	if c.Client != (config.OAuthClient{ID: "robot", Secret: "s3cret"}) {
		t.Fatalf("%+v", c.Client)
	}
	c.AccessToken = "newer"
	save(t, c)
	if got := object(t, file); got["AccessToken"] != "bearer newer" || got["UAAOAuthClientSecret"] != "s3cret" ||
		got["UAAGrantType"] != "client_credentials" {
		t.Errorf("%v", got)
	}
}

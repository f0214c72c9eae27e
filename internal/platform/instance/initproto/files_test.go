package initproto

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
)

func TestStateAndSpecFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := readState(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	state := State{Protocol: Version, Phase: Ended, Since: time.Unix(5, 0).UTC(), Seq: 7, PID: 1,
		Members: []MemberState{{Name: "web"}}, Exit: &Exit{Status: 3}}
	for range 2 {
		if err := WriteState(dir, state); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := readState(dir); err != nil || !reflect.DeepEqual(got, state) {
		t.Errorf("state is %+v, %v, want %+v", got, err, state)
	}
	spec := Spec{Instance: "i", Members: []Member{{Name: "web", Args: []string{"x"}, Env: []string{"SECRET=y"}}},
		Grace: time.Second}
	if err := writeJSON(filepath.Join(dir, SpecFile), spec, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadSpec(dir); err != nil || !reflect.DeepEqual(got, spec) {
		t.Errorf("spec is %+v, %v, want %+v", got, err, spec)
	}
	testkit.CheckMode(t, filepath.Join(dir, SpecFile), 0o600)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Error("left behind:", entries, err)
	}
	if err := WriteFileAtomic(filepath.Join(dir, "none", "x"), nil, 0o600); err == nil {
		t.Error("written to nowhere")
	}
	if err := os.WriteFile(filepath.Join(dir, SpecFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSpec(dir); err == nil {
		t.Error("rubbish is a spec")
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	web := Member{Name: "web", Args: []string{"x"}}
	for want, s := range map[string]Spec{
		"no members":          {},
		`two members`:         {Members: []Member{web, web}},
		"has no program":      {Members: []Member{{Name: "web"}}},
		"http without a port": {Members: []Member{web}, Health: Check{Kind: CheckHTTP}},
		"endpoint":            {Members: []Member{web}, Health: Check{Kind: CheckHTTP, Ports: []int{1}, Endpoint: "/a b"}},
		"port 0":              {Members: []Member{web}, Health: Check{Kind: CheckPort, Ports: []int{0}}},
		"unknown kind":        {Members: []Member{web}, Readiness: Check{Kind: "magic"}},
		"":                    {Members: []Member{web}, Health: Check{Kind: CheckHTTP, Ports: []int{1}, Endpoint: "/a"}},
	} {
		if err := s.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if c := (Check{Interval: time.Hour}).WithDefaults(); c.Interval != time.Hour || c.Startup != DefaultStartup ||
		c.Invocation != DefaultInvocation {
		t.Errorf("check is %+v, want an interval of 1h and defaults", c)
	}
}

func TestScript(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash")
	}
	const plain = "Invoking pre-start scripts.\nInvoking start command.\n"
	for _, test := range []struct {
		name    string
		files   map[string]string
		command string
		want    string
	}{
		{"nothing to source", nil, `echo "$PWD"`, plain + "HOME/app\n"},
		{"quotes", nil, `printf '%s|' "a  b" 'c"d' \$x; echo`, plain + "a  b|c\"d|$x|\n"},
		{"it is not expanded twice", nil, `x='$(echo no)'; echo "$x"`, plain + "$(echo no)\n"},
		{
			"order",
			map[string]string{
				"profile.d/b.sh": "V=$V-b", "profile.d/a.sh": "export V=a", "app/.profile.d/c.sh": "V=$V-c",
				"app/.profile": "V=$V-d",
			},
			`echo $V`, plain + "a-b-c-d\n",
		},
		{
			"a profile that meddles",
			map[string]string{"profile.d/a.sh": "set -- x y; cd /; declare -x D=1; f=1", "app/.profile": "export E=2"},
			`echo $D $E $#`, plain + "1 2 0\n",
		},
		{"file names with spaces", map[string]string{"app/.profile.d/a b.sh": "export V=1"}, `echo $V`, plain + "1\n"},
		{"exit status", nil, `exit 0; echo no`, plain},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			for _, dir := range []string{"app/.profile.d", "profile.d"} {
				if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for name, content := range test.files {
				if err := os.WriteFile(filepath.Join(home, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			args := Script(test.command)
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(home, "app")}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("running the script: %v: %s", err, out)
			}
			if got := strings.ReplaceAll(string(out), home, "HOME"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func readState(dir string) (State, error) {
	var s State
	err := readJSON(filepath.Join(dir, StateFile), &s)
	return s, err
}

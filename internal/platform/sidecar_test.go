package platform

import (
	"slices"
	"strings"
	"testing"
)

func TestCheckSidecars(t *testing.T) {
	t.Parallel()
	without := []Sidecar{{Name: "a", ProcessTypes: []string{"web"}, MemoryMB: 1},
		{Name: "b", ProcessTypes: []string{"web", "worker"}}}
	for name, test := range map[string]struct {
		pack     DropletBuildpack
		needed   bool
		sidecars []Sidecar
		refused  bool
	}{
		"java":        {DropletBuildpack{Name: "java_buildpack"}, false, without, true},
		"java url":    {DropletBuildpack{Name: "https://example.org/x/java-buildpack.git#main"}, false, without, true},
		"java itself": {DropletBuildpack{Name: "mine", BuildpackName: "java"}, false, without, true},
		"says so":     {DropletBuildpack{Name: "mine"}, true, without, true},
		"memory":      {DropletBuildpack{Name: "java_buildpack"}, false, without[:1], false},
		"none":        {DropletBuildpack{Name: "java_buildpack"}, false, nil, false},
		"go":          {DropletBuildpack{Name: "go_buildpack"}, false, without, false},
		"javascript":  {DropletBuildpack{Name: "javascript"}, false, without, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := CheckSidecars([]DropletBuildpack{test.pack}, test.needed, test.sidecars)
			if (err != nil) != test.refused {
				t.Fatalf("got %v, want refused %v", err, test.refused)
			}
			if err != nil && (!strings.Contains(err.Error(), `"b"`) || !strings.Contains(err.Error(), "`memory`") ||
				strings.Contains(err.Error(), `"a"`)) {
				t.Errorf("got %v, want the sidecar b alone and what to set", err)
			}
		})
	}
}

func TestMergeSidecars(t *testing.T) {
	t.Parallel()
	user := []Sidecar{{Name: "proxy", Command: "mine", Origin: "user"}}
	got := MergeSidecars(user, []DropletSidecar{{Name: "proxy", Command: "its"}, {Name: "agent", Command: "agent",
		ProcessTypes: []string{"web"}, MemoryMB: 8}})
	if len(got) != 2 || got[0].Command != "mine" || got[1].Name != "agent" || got[1].Origin != "buildpack" ||
		got[1].MemoryMB != 8 || !slices.Equal(got[1].ProcessTypes, []string{"web"}) {
		t.Errorf("got %+v, want the user's proxy and the droplet's agent", got)
	}
	if len(user) != 1 {
		t.Errorf("the user's sidecars became %+v, want them unchanged", user)
	}
}

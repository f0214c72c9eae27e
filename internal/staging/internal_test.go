package staging

import (
	"strings"
	"testing"
	"time"

	"ingot/internal/cf"
)

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		o    outcome
		want string
	}{
		"fine":      {outcome{}, ""},
		"detect":    {outcome{status: 222}, "NoAppDetectedError - An app was not successfully detected by any available buildpack"},
		"compile":   {outcome{status: 223}, "BuildpackCompileFailed - App staging failed in the buildpack compile phase"},
		"release":   {outcome{status: 224}, "BuildpackReleaseFailed - App staging failed in the buildpack release phase"},
		"supply":    {outcome{status: 225}, "BuildpackCompileFailed - App staging failed in the buildpack supply phase"},
		"finalize":  {outcome{status: 226}, "BuildpackCompileFailed - App staging failed in the buildpack finalize phase"},
		"disk":      {outcome{status: 227}, "StagingError - The build ran out of disk space: the limit is 20 MB"},
		"memory":    {outcome{status: 226, oom: true}, "StagingError - The build ran out of memory: the limit is 10 MB"},
		"time":      {outcome{status: 143, timedOut: true, stopped: true}, "StagingTimeExpired - Staging time expired: the build took longer than 1m0s"},
		"stopped":   {outcome{status: 143, stopped: true}, "StagingError - The build was stopped"},
		"lost":      {outcome{lost: true}, "StagingError - The staging instance was lost"},
		"something": {outcome{status: 1}, "StagingError - Staging failed: exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := test.o.failure(10, 20, time.Minute)
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func TestCheckSidecars(t *testing.T) {
	t.Parallel()
	without := []cf.Sidecar{{Name: "a", ProcessTypes: []string{"web"}, MemoryMB: 1}, {Name: "b", ProcessTypes: []string{"web", "worker"}}}
	for name, test := range map[string]struct {
		pack      cf.DropletBuildpack
		execution string
		sidecars  []cf.Sidecar
		refused   bool
	}{
		"java":        {cf.DropletBuildpack{Name: "java_buildpack"}, "", without, true},
		"java url":    {cf.DropletBuildpack{Name: "https://example.org/x/java-buildpack.git#main"}, "", without, true},
		"java itself": {cf.DropletBuildpack{Name: "mine", BuildpackName: "java"}, "", without, true},
		"says so":     {cf.DropletBuildpack{Name: "mine"}, `{"needs_sidecar_memory":true}`, without, true},
		"memory":      {cf.DropletBuildpack{Name: "java_buildpack"}, "", without[:1], false},
		"none":        {cf.DropletBuildpack{Name: "java_buildpack"}, "", nil, false},
		"go":          {cf.DropletBuildpack{Name: "go_buildpack"}, "", without, false},
		"javascript":  {cf.DropletBuildpack{Name: "javascript"}, "junk", without, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := CheckSidecars([]cf.DropletBuildpack{test.pack}, test.execution, test.sidecars)
			if (err != nil) != test.refused {
				t.Fatalf("%v, want refused %v", err, test.refused)
			}
			if err != nil && (!strings.Contains(err.Error(), `"b"`) || !strings.Contains(err.Error(), "`memory`") || strings.Contains(err.Error(), `"a"`)) {
				t.Error(err)
			}
		})
	}
}

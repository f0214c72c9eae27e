package platform_test

import (
	"testing"

	"ingot/internal/platform"
)

func TestRevisionChanges(t *testing.T) {
	t.Parallel()
	app := &platform.App{DropletGUID: "one", Env: map[string]string{"A": "1"}}
	web := func(command string) *platform.Process {
		return &platform.Process{Type: "web",
			ProcessSettings: platform.ProcessSettings{Command: command, MemoryMB: 64}}
	}
	worker := &platform.Process{Type: "worker"}
	side := func(memory int) []*platform.Sidecar {
		return []*platform.Sidecar{{Name: "b", Command: "run", ProcessTypes: []string{"worker", "web"}, MemoryMB: memory},
			{Name: "a"}}
	}
	base := platform.RevisionOf(app, []*platform.Process{web(""), worker}, side(1))
	for _, x := range []struct {
		what string
		next *platform.Revision
		want string
	}{
		{"nothing", platform.RevisionOf(app, []*platform.Process{worker, web("")}, side(1)), ""},
		{"the order of sidecars and types", platform.RevisionOf(app, []*platform.Process{web(""), worker},
			[]*platform.Sidecar{{Name: "a", Origin: "buildpack"},
				{Name: "b", Command: "run", ProcessTypes: []string{"web", "worker"}, MemoryMB: 1}}), ""},
		{"settings", platform.RevisionOf(app, []*platform.Process{
			{Type: "web", ProcessSettings: platform.ProcessSettings{MemoryMB: 128}}, worker}, side(1)), ""},
		{"the droplet and the environment", platform.RevisionOf(&platform.App{DropletGUID: "two"},
			[]*platform.Process{web(""), worker}, side(1)),
			"New droplet deployed. New environment variables deployed."},
		{"a command", platform.RevisionOf(app, []*platform.Process{web("x"), worker}, side(1)),
			"Custom start command added for 'web' process."},
		{"a process less", platform.RevisionOf(app, []*platform.Process{web("")}, side(1)), "Process type 'worker' removed."},
		{"a process more", platform.RevisionOf(app, []*platform.Process{web(""), worker, {Type: "clock"}}, side(1)),
			"New process type 'clock' added."},
		{"a sidecar", platform.RevisionOf(app, []*platform.Process{web(""), worker}, side(2)), "Sidecars updated."},
	} {
		if got := platform.DescribeRevision(base.ChangesTo(x.next), 0); got != x.want {
			t.Errorf("%s changed: described as %q, want %q", x.what, got, x.want)
		}
	}
	custom := platform.RevisionOf(app, []*platform.Process{web("x"), worker}, side(1))
	for command, want := range map[string]string{"": "Custom start command removed for 'web' process.",
		"y": "Custom start command updated for 'web' process."} {
		if got := platform.DescribeRevision(custom.ChangesTo(platform.RevisionOf(app, []*platform.Process{web(command),
			worker}, side(1))), 0); got != want {
			t.Errorf("the command becomes %q: described as %q, want %q", command, got, want)
		}
	}
	if got, want := platform.DescribeRevision(custom.ChangesTo(base), 3),
		"Custom start command removed for 'web' process. Rolled back to revision 3."; got != want {
		t.Errorf("a rollback is described as %q, want %q", got, want)
	}
	if !base.SameSettings(base) || base.SameSettings(custom) {
		t.Errorf("same settings: of itself %v, of another command %v, want true and false", base.SameSettings(base),
			base.SameSettings(custom))
	}
}

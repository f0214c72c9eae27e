package controller

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

// filed is an engine with one running instance, which takes files.
type filed struct {
	certified
	instance engine.Instance
	mu       sync.Mutex
	args     []string
}

func (e *filed) Get(_ context.Context, id string) (engine.Instance, error) {
	if id != e.instance.ID {
		return engine.Instance{}, engine.ErrNotFound
	}
	return e.instance, nil
}

func (e *filed) Exec(_ context.Context, id string, r engine.ExecRequest) (engine.Process, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.args = r.Args
	return &taker{engine: &e.certified, id: id}, nil
}

// TestRotationsGiveFiles gives an instance its new credentials, signals the members that asked
// for it, and remembers who was told.
func TestRotationsGiveFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	e := &filed{certified: certified{taken: map[string]map[string][]byte{}}, instance: engine.Instance{
		ID: "here", Running: true, Labels: map[string]string{labelProcess: "app", labelKind: kindApp},
		State: initproto.State{Members: []initproto.MemberState{
			{Name: "web", PID: 11}, {Name: "proxy", PID: 12}, {Name: "exporter", PID: 13}, {Name: "plain", PID: 14},
			{Name: "late", PID: 15, Exited: true},
		}},
	}}
	row := &platform.CredentialRotation{AppGUID: "app", State: platform.RotationApplying, Method: platform.ByFiles,
		Waits: []string{"here", "gone"}}
	w.update(func(tx platform.Tx) error {
		w.app.Features = map[string]bool{platform.FeatureFileBasedVCAP: true}
		w.process.OnCredentials = "SIGHUP"
		sidecar := func(name string, o platform.SidecarOptions) *platform.Sidecar {
			return &platform.Sidecar{AppGUID: "app", Name: name, Command: "x", ProcessTypes: []string{"web"}, Options: o}
		}
		for _, err := range []error{
			tx.Apps().Update(w.app), tx.Processes().Update(w.process),
			tx.Sidecars().Insert(sidecar("proxy", platform.SidecarOptions{OnCredentials: "SIGUSR1"})),
			tx.Sidecars().Insert(sidecar("exporter", platform.SidecarOptions{OnCredentials: "restart", Restart: "always",
				StopSignal: "SIGINT"})),
			tx.Sidecars().Insert(sidecar("plain", platform.SidecarOptions{})),
			tx.Sidecars().Insert(sidecar("late", platform.SidecarOptions{OnCredentials: "SIGHUP"})),
			tx.ServiceInstances().Insert(&platform.ServiceInstance{Resource: platform.Resource{GUID: "db"},
				Type: platform.ServiceUserProvided, Name: "db", SpaceGUID: "space",
				Credentials: map[string]any{"password": "new"}}),
			tx.ServiceBindings().Insert(&platform.ServiceBinding{Type: platform.BindingApp, InstanceGUID: "db", AppGUID: "app",
				SpaceGUID: "space",
				Last:      platform.LastOperation{Type: platform.OperationCreate, State: platform.OperationSucceeded}}),
			tx.CredentialRotations().Insert(row),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	})
	r := NewRotations(Config{Store: w.store, Platform: w.platform, Engine: e, Replace: "/bin/ingot-sftp",
		Log: slog.New(slog.DiscardHandler)})
	stored := func() (now *platform.CredentialRotation) {
		t.Helper()
		err := w.store.View(t.Context(), func(tx platform.Tx) (err error) {
			now, err = tx.CredentialRotations().Get(row.GUID)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	now := time.Now()
	e.status = 1
	pass := func(at time.Time) { r.look(t.Context(), at); r.attempts.Wait() }
	pass(now)
	if got := stored(); !slices.Equal(got.Waits, row.Waits) || !strings.Contains(got.Description, "here") {
		t.Errorf("after a failure the rotation is %+v", got)
	}
	e.status = 0
	pass(now) // too early
	if e.taken["here"] != nil {
		t.Error("an instance is tried again at once")
	}
	pass(now.Add(time.Minute))
	if got := string(e.taken["here"]["vcap_services"]); !strings.Contains(got, `"password":"new"`) {
		t.Errorf("the instance has %q", got)
	}
	if want := []string{"/bin/ingot-sftp", "--replace", "{{home}}/" + bindingsDir, "11:1", "12:10",
		"13:2"}; !slices.Equal(e.args, want) {
		t.Errorf("called %v, want %v", e.args, want)
	}
	if got := stored(); !slices.Equal(got.Waits, []string{"gone"}) || got.Description != "" {
		t.Errorf("the rotation is %+v, want to wait only for the one that is gone", got)
	}
}

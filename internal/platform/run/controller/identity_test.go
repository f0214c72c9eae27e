package controller

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/identity"
	"ingot/internal/platform/instance/initproto"
)

// certified is an engine whose instances only take files.
type certified struct {
	engine.Engine
	mu        sync.Mutex
	instances []engine.Instance
	taken     map[string]map[string][]byte // files by instance
	status    int
}

func (*certified) Describe() engine.Description { return engine.Description{} }

func (e *certified) List(_ context.Context, wanted engine.Wanted) ([]engine.Instance, error) {
	return slices.DeleteFunc(slices.Clone(e.instances), func(in engine.Instance) bool { return !wanted.Of(in.Labels) }),
		nil
}

func (e *certified) Exec(_ context.Context, id string, r engine.ExecRequest) (engine.Process, error) {
	if !slices.Equal(r.Args, []string{"/bin/ingot-sftp", "--replace", "{{home}}/cf-instance-credentials"}) {
		return nil, errors.New("unexpected program: " + strings.Join(r.Args, " "))
	}
	return &taker{engine: e, id: id}, nil
}

// taker is a process that takes files.
type taker struct {
	engine *certified
	id     string
	in     bytes.Buffer
}

func (p *taker) Stdin() io.WriteCloser       { return p }
func (p *taker) Stdout() io.Reader           { return strings.NewReader("") }
func (p *taker) Stderr() io.Reader           { return strings.NewReader("no room") }
func (p *taker) Resize(int, int) error       { return nil }
func (p *taker) Signal(int) error            { return nil }
func (p *taker) Write(b []byte) (int, error) { return p.in.Write(b) }
func (p *taker) Close() error                { return nil }

func (p *taker) Wait() (int, error) {
	p.engine.mu.Lock()
	defer p.engine.mu.Unlock()
	if p.engine.status != 0 {
		return p.engine.status, nil
	}
	files, err := untar(&p.in)
	p.engine.taken[p.id] = files
	return 0, err
}

func untar(r io.Reader) (map[string][]byte, error) {
	out := map[string][]byte{}
	for files := tar.NewReader(r); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if out[h.Name], err = io.ReadAll(files); err != nil {
			return nil, err
		}
	}
}

// leafOf returns the certificate of an instance's files.
func leafOf(t *testing.T, files map[string][]byte) *x509.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(files[certFile], files[keyFile])
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

// An instance starts with a certificate for its address, and the variables name its files.
func TestCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	authority, err := identity.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	c := w.config()
	c.Identity = authority
	c.InternalNames = func(uint64) (map[string][]string, uint64) { return nil, 0 }
	controller := New(c)
	spec, err := controller.specOf(t.Context(), slotKey{process: w.process.GUID}, "instance-1", w.process.Version)
	if err != nil {
		t.Fatal(err)
	}
	env := strings.Join(spec.Launch.Members[0].Env, "\n")
	for _, want := range []string{
		"CF_INSTANCE_CERT={{home}}/cf-instance-credentials/instance.crt",
		"CF_INSTANCE_KEY={{home}}/cf-instance-credentials/instance.key",
		"CF_SYSTEM_CERT_PATH={{home}}/cf-system-certificates",
	} {
		if !strings.Contains(env, want) {
			t.Errorf("the environment lacks %s", want)
		}
	}
	wanted := initproto.TLS{Port: 61443, To: 8080, Certificate: "{{home}}/cf-instance-credentials/instance.crt",
		Key: "{{home}}/cf-instance-credentials/instance.key"}
	if got := spec.Launch.TLS; got == nil || *got != wanted {
		t.Errorf("TLS is %+v, want %+v", got, wanted)
	}
	archives, err := spec.FilesAt("10.9.8.7")
	if err != nil || len(archives) != 2 {
		t.Fatalf("%d archives, %v, want 2", len(archives), err)
	}
	for _, a := range archives {
		r, err := a.Open()
		if err != nil {
			t.Fatal(err)
		}
		files, err := untar(r)
		if err != nil {
			t.Fatal(err)
		}
		if a.Target == authoritiesDir {
			if !bytes.Equal(files["trusted-ca-1.crt"], authority.PEM()) {
				t.Error("the authority is not the platform's")
			}
			continue
		}
		leaf := leafOf(t, files)
		if leaf.Subject.CommonName != "instance-1" || leaf.IPAddresses[0].String() != "10.9.8.7" ||
			!slices.Contains(leaf.Subject.OrganizationalUnit, "app:app") {
			t.Errorf("the certificate is for %s, %v", leaf.Subject, leaf.IPAddresses)
		}
	}
}

// Certificates are renewed before they expire; a failure is retried.
func TestRenewals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	authority, err := identity.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	labels := func(kind string) map[string]string { return map[string]string{labelKind: kind, LabelApp: "app"} }
	e := &certified{taken: map[string]map[string][]byte{}, instances: []engine.Instance{
		{ID: "new", Labels: labels(kindApp), Running: true, Created: now, Internal: "10.0.0.1"},
		{ID: "old", Labels: labels(kindApp), Running: true, Created: now.Add(-48 * time.Hour), Internal: "10.0.0.2"},
		{ID: "task", Labels: labels(kindTask), Running: true, Created: now.Add(-time.Hour), Internal: "10.0.0.3"},
		{ID: "ended", Labels: labels(kindApp), Created: now.Add(-48 * time.Hour)},
		{ID: "build", Labels: labels("staging"), Running: true, Created: now.Add(-48 * time.Hour)},
	}}
	r := NewRenewals(Config{Store: w.store, Platform: w.platform, Engine: e, Identity: authority,
		Replace: "/bin/ingot-sftp", Log: slog.New(slog.DiscardHandler)})
	want := func(when string, ids ...string) {
		t.Helper()
		if len(e.taken) != len(ids) {
			t.Errorf("%s: %d instances have new certificates, want %v", when, len(e.taken), ids)
		}
		for _, id := range ids {
			if e.taken[id] == nil {
				t.Errorf("%s: %s has no new certificate", when, id)
			}
		}
		clear(e.taken)
	}
	r.look(t.Context(), now)
	want("at first")
	r.look(t.Context(), now.Add(renewSpread))
	if leaf := leafOf(t, e.taken["old"]); leaf.Subject.CommonName != "old" || leaf.IPAddresses[0].String() != "10.0.0.2" {
		t.Errorf("the new certificate is for %s, %v", leaf.Subject, leaf.IPAddresses)
	}
	want("after the server's start", "old")
	e.status = 1
	r.look(t.Context(), now.Add(identity.RenewAfter))
	want("a failure")
	e.status = 0
	r.look(t.Context(), now.Add(identity.RenewAfter+renewRetry/2))
	want("too early to try again")
	r.look(t.Context(), now.Add(identity.RenewAfter+renewRetry))
	want("another try", "new", "task")
	r.look(t.Context(), now.Add(identity.RenewAfter+renewSpread))
	want("its second one", "old")
	e.instances = e.instances[:1]
	r.look(t.Context(), now.Add(2*identity.RenewAfter+renewRetry))
	want("again", "new")
	if len(r.due) != 1 {
		t.Errorf("%d instances are remembered, want 1", len(r.due))
	}
}

// TestNamesInCertificates sees that an instance gets a new certificate when the internal
// routes of its app have changed, and at no other time.
func TestNamesInCertificates(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	authority, err := identity.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	e := &certified{taken: map[string]map[string][]byte{}, instances: []engine.Instance{
		{ID: "one", Labels: map[string]string{labelKind: kindApp, LabelApp: "app"}, Running: true, Created: now,
			Internal: "10.0.0.1"},
		{ID: "two", Labels: map[string]string{labelKind: kindApp, LabelApp: "app"}, Running: true, Created: now,
			Internal: "10.0.0.2"},
	}}
	names, version := map[string][]string{}, uint64(0)
	r := NewRenewals(Config{
		Store: w.store, Platform: w.platform, Engine: e, Identity: authority, Replace: "/bin/ingot-sftp",
		Log:           slog.New(slog.DiscardHandler),
		InternalNames: func(uint64) (map[string][]string, uint64) { return names, version },
	})
	look := func(when string, want ...string) {
		t.Helper()
		clear(e.taken)
		if r.readNames() {
			r.look(t.Context(), now)
		}
		if got := slices.Sorted(maps.Keys(e.taken)); !slices.Equal(got, want) {
			t.Errorf("%s: new certificates for %v, want %v", when, got, want)
		}
	}
	look("at first")
	names, version = map[string][]string{"10.0.0.1": {"back.apps.internal"}}, 1
	look("with a route", "one")
	look("without a change")
	names, version = map[string][]string{"10.0.0.1": {"back.apps.internal"}, "10.0.0.2": {"back.apps.internal"}}, 2
	look("another instance is healthy", "two")
	e.status = 1
	names, version = map[string][]string{}, 3
	look("the route is removed, and that fails")
	e.status, now = 0, now.Add(renewRetry)
	version = 4
	look("another try", "one", "two")
}

// TestRenewalsOfStuckInstances checks that instances whose renewal fails do not hold up others.
func TestRenewalsOfStuckInstances(t *testing.T) {
	t.Parallel()
	r := NewRenewals(Config{})
	var due []engine.Instance
	for i := range 100 {
		id := strconv.Itoa(i)
		r.failures[id] = 1 + i%2
		due = append(due, engine.Instance{ID: id})
	}
	due = append(due, engine.Instance{ID: "new"}, engine.Instance{ID: "newer"})
	now := r.limited(due)
	if len(now) != 2+renewRetries || now[0].ID != "new" || now[1].ID != "newer" {
		t.Errorf("a pass has %d instances, %v, want the 2 new ones first and %d others", len(now), now, renewRetries)
	}
	for _, in := range now[2:] {
		if r.failures[in.ID] != 1 {
			t.Errorf("%s, which failed twice, is before others that failed once", in.ID)
		}
	}
}

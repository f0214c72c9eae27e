package controller

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/identity"
	"ingot/internal/platform/instance/initproto"
)

// The directories, below the home of an instance, of its own certificate and of the
// certificates of authorities.
const (
	credentialsDir = "cf-instance-credentials"
	authoritiesDir = "cf-system-certificates"

	certFile = "instance.crt"
	keyFile  = "instance.key"
)

// tlsPort is where instances terminate TLS for other apps, as in Cloud Foundry.
const tlsPort = 61443

// tls returns the port on which an instance of a web app terminates TLS with its own
// certificate; nil if it has none.
func (c *Config) tls(port int) *initproto.TLS {
	files := c.identityVariables()
	if files == nil || c.InternalNames == nil {
		return nil
	}
	return &initproto.TLS{Port: tlsPort, To: port, Certificate: files["CF_INSTANCE_CERT"], Key: files["CF_INSTANCE_KEY"]}
}

// identityVariables name the files of an instance's certificate.
func (c *Config) identityVariables() map[string]string {
	if c.Identity == nil {
		return nil
	}
	return map[string]string{
		"CF_INSTANCE_CERT": "{{home}}/" + credentialsDir + "/" + certFile, "CF_INSTANCE_KEY": "{{home}}/" + credentialsDir +
			"/" + keyFile,
		"CF_SYSTEM_CERT_PATH": "{{home}}/" + authoritiesDir,
	}
}

// issue returns the files of a new certificate of an instance.
func (c *Config) issue(id string, of *actions.AppInfo, ip string) (map[string][]byte, error) {
	certificate, key, err := c.Identity.Issue(identity.Subject{Instance: id, App: of.App.GUID, Space: of.Space.GUID,
		Org: of.Org.GUID, IP: ip, Names: of.Internal})
	return map[string][]byte{certFile: certificate, keyFile: key}, err
}

// credentials returns the files of an instance's certificate, for engine.Spec.FilesAt. Only
// the instance's user can read them, and the user can replace them.
func (c *Config) credentials(id string, of *actions.AppInfo) func(ip string) ([]engine.Archive, error) {
	if c.Identity == nil {
		return nil
	}
	return func(ip string) ([]engine.Archive, error) {
		files, err := c.issue(id, of, ip)
		if err != nil {
			return nil, fmt.Errorf("certificate of instance %s: %w", id, err)
		}
		authorities := map[string][]byte{"trusted-ca-1.crt": c.Identity.PEM()}
		return []engine.Archive{
			{Target: credentialsDir, Open: func() (io.ReadCloser, error) { return archiveOf(files, 0o600) }},
			{Target: authoritiesDir, Open: func() (io.ReadCloser, error) { return archiveOf(authorities, 0o444) }},
		}, nil
	}
}

// Renewals replaces the certificates of running instances and tasks before they expire. It
// is a background.Service.
type Renewals struct {
	Config
	part background.Part
	// due is when each instance needs a new certificate. After a restart it is unknown for
	// instances that are older than their first certificate: they get a new one soon.
	due map[string]time.Time
	// failures is how often in a row the renewal of an instance has failed.
	failures map[string]int

	// names are the names of internal routes by the address of an instance, of a version;
	// issued are those that an instance's certificate has, if that is known.
	names   map[string][]string
	version uint64
	issued  map[string][]string
}

// The program that replaces files runs in the instance, as its user, who can stop it. An
// instance that was not tried before is tried shortly, and a pass has few others, so that it
// ends soon whatever they do.
const (
	renewInterval = time.Minute
	// namesInterval is how often Renewals looks whether internal routes have changed.
	namesInterval = 2 * time.Second
	// renewSpread is the time over which instances of unknown due time are distributed.
	renewSpread   = 10 * time.Minute
	renewRetry    = 5 * time.Minute
	renewMaxRetry = time.Hour
	renewFirst    = 5 * time.Second
	renewLater    = 30 * time.Second
	renewAtOnce   = 4
	// renewRetries limits the instances of a pass that have failed before.
	renewRetries = 2 * renewAtOnce
)

// NewRenewals returns a service that is not running.
func NewRenewals(c Config) *Renewals {
	return &Renewals{Config: c.withDefaults(), due: map[string]time.Time{}, failures: map[string]int{},
		issued: map[string][]string{}}
}

// Start starts to look for instances.
func (r *Renewals) Start(ctx context.Context) error {
	return r.part.Launch(ctx, func(work context.Context, spawn func(func())) error {
		if r.Identity == nil || r.Replace == "" {
			return nil
		}
		spawn(func() {
			look := time.NewTicker(renewInterval)
			defer look.Stop()
			names := time.NewTicker(namesInterval)
			defer names.Stop()
			for {
				select {
				case now := <-look.C:
					r.look(work, now)
				case now := <-names.C:
					if r.readNames() {
						r.look(work, now)
					}
				case <-work.Done():
					return
				}
			}
		})
		return nil
	})
}

// Stop stops it; a renewal that has begun is completed or does nothing.
func (r *Renewals) Stop() { r.part.Halt(nil) }

// readNames reads the names of internal routes and reports whether they may have changed.
func (r *Renewals) readNames() bool {
	if r.InternalNames == nil {
		return false
	}
	names, version := r.InternalNames(r.version)
	if version == r.version {
		return false
	}
	r.names, r.version = names, version
	return true
}

// look renews what is due.
func (r *Renewals) look(ctx context.Context, now time.Time) {
	all, err := r.Engine.List(ctx, func(labels map[string]string) bool {
		kind := labels[labelKind]
		return (kind == kindApp || kind == kindTask) && (r.Owner == nil || r.Owner.Owns(labels[LabelApp]))
	})
	if err != nil {
		if ctx.Err() == nil {
			r.Log.WarnContext(ctx, "the certificates of instances are not renewed now", "error", err)
		}
		return
	}
	known := map[string]time.Time{}
	var renew []engine.Instance
	for _, in := range all {
		if !in.Running {
			continue
		}
		known[in.ID] = r.dueOf(in, now)
		if !known[in.ID].After(now) {
			renew = append(renew, in)
		}
	}
	r.due = known
	maps.DeleteFunc(r.failures, func(id string, _ int) bool { _, running := known[id]; return !running })
	maps.DeleteFunc(r.issued, func(id string, _ []string) bool { _, running := known[id]; return !running })
	renew = r.limited(renew)
	results := background.EachResult(ctx, "renew certificates", renewAtOnce, renew, r.renew)
	for i, in := range renew {
		r.due[in.ID] = now.Add(identity.RenewAfter)
		if results[i] == nil {
			delete(r.failures, in.ID)
			r.issued[in.ID] = r.names[in.Internal]
		} else if ctx.Err() == nil {
			r.due[in.ID] = now.Add(min(renewRetry<<min(r.failures[in.ID], 10), renewMaxRetry))
			r.failures[in.ID]++
			r.Log.WarnContext(ctx, "the certificate of an instance could not be renewed; it is tried again", "instance", in.ID,
				"error", results[i])
		}
	}
}

// limited returns the instances of this pass: all that did not fail, and a few of the others,
// first those that failed less often. The rest stays due.
func (r *Renewals) limited(due []engine.Instance) []engine.Instance {
	slices.SortStableFunc(due, func(a, b engine.Instance) int { return cmp.Compare(r.failures[a.ID], r.failures[b.ID]) })
	failed := slices.IndexFunc(due, func(in engine.Instance) bool { return r.failures[in.ID] > 0 })
	if failed < 0 {
		return due
	}
	return due[:min(len(due), failed+renewRetries)]
}

// dueOf returns when an instance needs a new certificate: at once if its app has got other
// internal routes.
func (r *Renewals) dueOf(in engine.Instance, now time.Time) time.Time {
	if r.failures[in.ID] == 0 && !slices.Equal(r.names[in.Internal], r.issued[in.ID]) {
		return now
	}
	if due, ok := r.due[in.ID]; ok {
		return due
	}
	if first := in.Created.Add(identity.RenewAfter); first.After(now) {
		return first
	}
	return now.Add(rand.N(renewSpread))
}

// renew gives an instance a new certificate.
func (r *Renewals) renew(ctx context.Context, in engine.Instance) error {
	limit := renewFirst
	if r.failures[in.ID] > 0 { // not changed during a pass
		limit = renewLater
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var of *actions.AppInfo
	err := r.Store.View(ctx, func(tx platform.Tx) error {
		app, err := tx.Apps().Get(in.Labels[LabelApp])
		if err != nil {
			return err
		}
		of, err = actions.AppInfoOf(tx, app)
		return err
	})
	if fault.Is(err, fault.NotFound) {
		return nil // being deleted
	}
	if err != nil {
		return err
	}
	files, err := r.issue(in.ID, of, cmp.Or(in.Internal, in.Host))
	if err != nil {
		return err
	}
	return r.replace(ctx, in.ID, files)
}

// replace replaces files of an instance's certificate.
func (r *Renewals) replace(ctx context.Context, id string, files map[string][]byte) error {
	archive, err := archiveOf(files, 0o600)
	if err != nil {
		return err
	}
	return r.pipeInto(ctx, id, []string{r.Replace, "--replace", "{{home}}/" + credentialsDir}, archive)
}

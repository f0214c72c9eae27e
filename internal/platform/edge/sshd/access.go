package sshd

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// Records is the Platform of a CodeAuthorizer on the platform's store. It also records
// audit events for accepted and refused logins.
type Records struct {
	Store   platform.Store
	Actions *actions.Platform
	// Verifier returns the verifier of access tokens; nil while the authorization server is
	// not known yet.
	Verifier func() *token.Verifier
	Log      *slog.Logger
}

var _ Platform = (*Records)(nil)

// Identify implements Platform.
func (r *Records) Identify(ctx context.Context, raw string) (User, error) {
	verifier := r.Verifier()
	if verifier == nil {
		return User{}, errors.New("the authorization server has not answered yet")
	}
	claims, err := verifier.Verify(ctx, raw)
	if err != nil {
		return User{}, err
	}
	if !claims.IsUser() {
		return User{}, fault.New(fault.InvalidToken, "the token is a client's own, and not a user's")
	}
	return User{GUID: claims.UserID, Name: claims.UserName, Scopes: claims.Scope}, nil
}

// Target implements Platform.
func (r *Records) Target(ctx context.Context, u User, processGUID string, index int) (t Target, err error) {
	err = r.Store.View(ctx, func(tx platform.Tx) error {
		process, err := tx.Processes().Get(processGUID)
		if fault.Is(err, fault.NotFound) {
			// It may be the guid of an app, which its first web process has too.
			process, err = actions.ProcessOf(tx, processGUID, platform.WebProcess)
		}
		if err != nil {
			return err
		}
		app, err := tx.Apps().Get(process.AppGUID)
		if err != nil {
			return err
		}
		space, err := tx.Spaces().Get(app.SpaceGUID)
		if err != nil {
			return err
		}
		t = Target{
			AppGUID: app.GUID, SpaceAllows: space.SSHAllowed, AppAllows: app.HasFeature(platform.FeatureSSH),
			Started: app.State == platform.AppStarted,
		}
		// Read-only scopes do not justify revealing the app.
		caller := platform.Caller{GUID: u.GUID, Authority: platform.Authority{Admin: platform.AuthorityOf(u.Scopes).Admin}}
		if t.Standing, err = actions.StandingInSpace(tx, caller, space); err != nil {
			return err
		}
		instance, err := actions.InstanceAt(tx, process, index)
		if instance != nil {
			t.InstanceID, t.Running = instance.GUID, t.Started && instance.State == platform.InstanceRunning
		}
		return err
	})
	return t, err
}

// Authorized implements the hook: it records an accepted login.
func (r *Records) Authorized(ctx context.Context, a Access) {
	r.record(ctx, "audit.app.ssh-authorized", a, map[string]any{"index": a.Index})
}

// Unauthorized implements the hook. It records the refusal of a known user of a known app.
// A wrong code identifies neither; it is only in the operator's log.
func (r *Records) Unauthorized(ctx context.Context, a Access, why string) {
	if a.AppGUID == "" || a.UserGUID == "" {
		return
	}
	r.record(ctx, "audit.app.ssh-unauthorized", a, map[string]any{"index": a.Index, "reason": why})
}

// recordTimeout limits the write of an audit event, because the client waits for it.
const recordTimeout = 15 * time.Second

func (r *Records) record(ctx context.Context, kind string, a Access, data map[string]any) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	by := actions.Actor{GUID: a.UserGUID, Type: "user", Name: a.UserName}
	err := r.Store.Update(ctx, func(tx platform.Tx) error {
		app, err := tx.Apps().Get(a.AppGUID)
		if err != nil {
			return err
		}
		return r.Actions.RecordApp(tx, kind, by, app, data)
	})
	if err != nil && !fault.Is(err, fault.NotFound) { // the app was just deleted
		r.Log.ErrorContext(ctx, "recording an ssh audit event failed", "event", kind, "app", a.AppGUID, "user", a.UserGUID,
			"error", err)
	}
}

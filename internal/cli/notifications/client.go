package notifications

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
	"ingot/internal/cli/core"
)

// notifyFlags name the notification service and the client that sends.
type notifyFlags struct {
	URL    string `long:"url" value-name:"URL" description:"Notification service URL, or $INGOT_NOTIFICATIONS_URL (default: the target's)"`
	Client string `long:"client" value-name:"ID" description:"OAuth client to send as, or $INGOT_NOTIFICATIONS_CLIENT"`
	Secret string `long:"client-secret" value-name:"SECRET" description:"Secret of the client, or $INGOT_NOTIFICATIONS_SECRET; visible in the process list"`

	admin bool // the command needs notifications.admin, see administers
}

// administers makes a command act as the logged-in user unless a client is named: the client that exists on the server
// of this machine may send and manage its own kinds, but not see what is of all clients.
func (f *notifyFlags) administers() { f.admin = true }

// ownClient is the client that is created on the server of this machine.
const ownClient = "ingot-cli"

// notifyScopes are the scopes of ownClient.
var notifyScopes = []string{
	"notifications.write", "notifications.manage", "notification_templates.write", "notification_templates.read",
	"critical_notifications.write", "emails.write",
}

// base returns the URL of the notification service.
func (f *notifyFlags) base(ctx context.Context, s *core.Session) (string, error) {
	if at := cmp.Or(f.URL, s.Env.Getenv("INGOT_NOTIFICATIONS_URL")); at != "" {
		return strings.TrimRight(at, "/"), nil
	}
	if at := s.Config.Links.Notifications; at != "" {
		return at, nil
	}
	if root, err := s.API.Discover(ctx); err == nil && root.Href("notifications") != "" {
		return root.Href("notifications"), nil // the configuration of the cf CLI does not have it
	}
	if scheme, host, ok := strings.Cut(s.Config.API, "://api."); ok {
		return scheme + "://notifications." + host, nil
	}
	return "", &core.Problem{What: "No notification service is configured.", Why: "the API at " + s.Config.API +
		" does not advertise one", Try: "pass its address with --url or INGOT_NOTIFICATIONS_URL"}
}

// token returns a token of the given client, or of the client created on the
// server of this machine. Without either it returns the user's token. So only
// the latter needs a login: jobs that send as a client have none.
func (f *notifyFlags) token(ctx context.Context, s *core.Session) (string, error) {
	if id := cmp.Or(f.Client, s.Env.Getenv("INGOT_NOTIFICATIONS_CLIENT")); id != "" {
		return clientToken(ctx, s, id, cmp.Or(f.Secret, s.Env.Getenv("INGOT_NOTIFICATIONS_SECRET")))
	}
	if f.admin {
		if err := s.Check(core.NeedsLogin); err != nil {
			return "", err
		}
		return s.API.Token(ctx)
	}
	if kept := s.Config.Notifications; kept.Client != "" && kept.API == s.Config.API {
		token, err := clientToken(ctx, s, kept.Client, kept.Secret)
		if err == nil || client.Status(err) != http.StatusUnauthorized || s.Config.Local == "" {
			return token, err
		}
	}
	if s.Config.Local == "" {
		if err := s.Check(core.NeedsLogin); err != nil {
			return "", err
		}
		return s.API.Token(ctx)
	}
	if err := makeClient(ctx, s); err != nil {
		return "", fmt.Errorf("a client for notifications: %w", err)
	}
	return clientToken(ctx, s, s.Config.Notifications.Client, s.Config.Notifications.Secret)
}

func clientToken(ctx context.Context, s *core.Session, id, secret string) (string, error) {
	tokens, err := s.API.Grant(ctx, id, secret, url.Values{"grant_type": {"client_credentials"}})
	if client.Status(err) == http.StatusUnauthorized {
		return "", &core.Problem{What: "The client " + id + " was rejected.", Why: err.Error(),
			Try: "check --client and --client-secret", Err: err}
	}
	return tokens.Access, err
}

// makeClient creates the client on the server of this machine, with the
// administrator's secret, or resets its secret when it already exists.
func makeClient(ctx context.Context, s *core.Session) error {
	local, err := config.FindLocal(s.Config.Local)
	if err != nil {
		return err
	}
	admin, err := local.Secret(config.AdminClientSecret)
	if err != nil {
		return err
	}
	tokens, err := s.API.Grant(ctx, "admin", admin, url.Values{"grant_type": {"client_credentials"}})
	if err != nil {
		return err
	}
	secret := rand.Text()
	body := map[string]any{"client_id": ownClient, "client_secret": secret,
		"authorized_grant_types": []string{"client_credentials"}, "authorities": notifyScopes}
	_, err = s.API.Do(ctx, client.Call{Method: http.MethodPost, URL: s.Config.Links.UAA + "/oauth/clients", Body: body,
		Token: tokens.Access})
	if client.Status(err) == http.StatusConflict {
		_, err = s.API.Do(ctx, client.Call{
			Method: http.MethodPut, URL: s.Config.Links.UAA + "/oauth/clients/" + ownClient + "/secret",
			Body: map[string]string{"secret": secret}, Token: tokens.Access,
		})
	}
	if err != nil {
		return err
	}
	s.Say("Created the client %s for sending notifications.", s.Out.Bold(ownClient))
	s.Config.Notifications = config.Notifications{Client: ownClient, Secret: secret, API: s.Config.API}
	return s.Config.Save()
}

// call sends a request to the notification service.
func (f *notifyFlags) call(ctx context.Context, s *core.Session, method, path string, body, into any) error {
	base, err := f.base(ctx, s)
	if err != nil {
		return err
	}
	token, err := f.token(ctx, s)
	if err != nil {
		return err
	}
	_, err = s.API.Do(ctx, client.Call{Method: method, URL: base + path, Body: body, Into: into, Token: token})
	return f.explain(base, err)
}

func (f *notifyFlags) explain(base string, err error) error {
	var refused *client.Error
	if !errors.As(err, &refused) {
		return err
	}
	switch refused.Status {
	case http.StatusForbidden, http.StatusUnauthorized:
		try := "use a client with the scopes notifications.write, notifications.manage and notification_templates.write " +
			"(--client, --client-secret)"
		if f.admin {
			try = "log in as a user with the scope notifications.admin, or use a client that has it (--client, --client-secret)"
		}
		return &core.Problem{What: "Permission denied by the notification service.",
			Why: cmp.Or(refused.Error(), "the token lacks a scope"), Try: try, Err: err}
	case http.StatusNotFound:
		if len(refused.Items) == 0 || refused.Says("page not found") || refused.Says("Unknown request") {
			return &core.Problem{What: "No notification service at " + base + ".", Try: "pass its address with --url", Err: err}
		}
	}
	return &core.Problem{What: refused.Error(), Why: fmt.Sprintf("the server replied %d to %s %s", refused.Status,
		refused.Method, refused.URL), Err: err}
}

// clientID returns the id of the client that owns the notifications.
func (f *notifyFlags) clientID(ctx context.Context, s *core.Session) (string, error) {
	token, err := f.token(ctx, s)
	return client.Parse(token).ClientID, err
}

package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"ingot/internal/cli/client"
)

type createUserCommand struct {
	Email string `long:"email" value-name:"ADDRESS" description:"E-mail address (default: the user name)"`
	Args  struct {
		User     string `positional-arg-name:"USER" required:"yes"`
		Password string `positional-arg-name:"PASSWORD"`
	} `positional-args:"yes"`
}

// accounts returns a filter that finds the accounts with a user name.
func accounts(user string) url.Values {
	return url.Values{"filter": {"userName eq " + strconv.Quote(user) + ` and origin eq "uaa"`}}
}

func (s *session) account(ctx context.Context, user string) (string, error) {
	var found struct {
		Resources []struct {
			ID string `json:"id"`
		} `json:"resources"`
	}
	err := s.api.Get(ctx, s.cfg.Links.UAA+"/Users", accounts(user), &found)
	if err != nil || len(found.Resources) == 0 {
		return "", err
	}
	return found.Resources[0].ID, nil
}

func (c *createUserCommand) run(ctx context.Context, s *session) (result, error) {
	user, password := c.Args.User, c.Args.Password
	if password == "" {
		var err error
		if password, err = s.secret(ctx, bufio.NewReader(s.w.In), "Password of "+user); err != nil {
			return nil, err
		}
	}
	s.say("Creating user %s...", s.out.Bold(user))
	id, err := s.account(ctx, user)
	if err != nil {
		return nil, err
	}
	existed := id != ""
	if !existed {
		var account struct {
			ID string `json:"id"`
		}
		body := map[string]any{
			"userName": user, "password": password, "origin": "uaa", "emails": []any{map[string]any{"value": cmp.Or(c.Email, user), "primary": true}},
			"name": map[string]string{"givenName": user, "familyName": user},
		}
		if _, err := s.api.Post(ctx, s.cfg.Links.UAA+"/Users", body, &account); err != nil {
			return nil, err
		}
		id = account.ID
	}
	// Register the account with the platform too; doing so twice is harmless.
	if _, err := s.api.Post(ctx, "/v3/users", map[string]any{"guid": id}, nil); err != nil && client.Status(err) != http.StatusUnprocessableEntity {
		return nil, err
	}
	if existed {
		s.say("User %s already exists; the password was not changed.", user)
	}
	s.ok()
	s.say("Use '%[1]s set-org-role %[2]s ORG ROLE' and '%[1]s set-space-role %[2]s ORG SPACE ROLE' next.", s.w.Program, user)
	return &made{"user", user, id, existed}, nil
}

type deleteUserCommand struct {
	Force bool `short:"f" description:"Do not ask for confirmation"`
	Args  struct {
		User string `positional-arg-name:"USER" required:"yes"`
	} `positional-args:"yes"`
}

func (c *deleteUserCommand) run(ctx context.Context, s *session) (result, error) {
	if !c.Force {
		if err := s.confirm(ctx, "Really delete the user "+c.Args.User); err != nil {
			return nil, err
		}
	}
	s.say("Deleting user %s as %s...", s.out.Bold(c.Args.User), s.out.Bold(s.api.User().Name()))
	id, err := s.account(ctx, c.Args.User)
	if err != nil {
		return nil, err
	}
	if id == "" {
		s.say("User %s does not exist.", c.Args.User)
		s.ok()
		return &removed{Kind: "user", Name: c.Args.User}, nil
	}
	// An earlier attempt that was interrupted may have deleted one of the two.
	if err := s.api.Delete(ctx, "/v3/users/"+id); err != nil && client.Status(err) != http.StatusNotFound {
		return nil, err
	}
	if err := s.api.Delete(ctx, s.cfg.Links.UAA+"/Users/"+id); err != nil && client.Status(err) != http.StatusNotFound {
		return nil, err
	}
	s.ok()
	return &removed{Kind: "user", Name: c.Args.User, Gone: true}, nil
}

type passwdCommand struct{}

func (c *passwdCommand) run(ctx context.Context, s *session) (result, error) {
	user := s.api.User()
	if user.UserID == "" {
		return nil, &problem{What: "Clients have no password.", Why: "you are logged in as the client " + user.ClientID}
	}
	in := bufio.NewReader(s.w.In)
	var words [3]string
	for i, what := range []string{"Current password", "New password", "Verify password"} {
		var err error
		if words[i], err = s.secret(ctx, in, what); err != nil {
			var missing *problem
			if errors.As(err, &missing) {
				missing.Try = "type it, or pass the old password and twice the new one as three lines on standard input"
			}
			return nil, err
		}
	}
	if words[1] != words[2] {
		return nil, &problem{What: "The password was not changed.", Why: "the two new passwords differ"}
	}
	s.say("Changing password...")
	_, err := s.api.Do(ctx, client.Call{
		Method: http.MethodPut, URL: s.cfg.Links.UAA + "/Users/" + user.UserID + "/password",
		Body: map[string]string{"oldPassword": words[0], "password": words[1]},
	})
	if client.Status(err) == http.StatusUnauthorized {
		return nil, &problem{What: "The password was not changed.", Why: "the current password is wrong, or the login has expired", cause: err}
	}
	if err != nil {
		return nil, err
	}
	s.ok()
	s.say("Use '%s login' to log in again.", s.w.Program)
	return s.jsonOnly(&made{"password", user.UserName, user.UserID, true}), nil
}

type oauthTokenCommand struct{}

func (c *oauthTokenCommand) run(ctx context.Context, s *session) (result, error) {
	token, err := s.api.Token(ctx)
	if err != nil {
		return nil, err
	}
	return &text{"token", "bearer " + token}, nil
}

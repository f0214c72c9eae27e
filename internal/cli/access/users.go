package access

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

type createUserFlags struct {
	Email string `long:"email" value-name:"ADDRESS" description:"E-mail address (default: the user name)"`
}

// accounts returns a filter that finds the accounts with a user name.
func accounts(user string) url.Values {
	return url.Values{"filter": {"userName eq " + strconv.Quote(user) + ` and origin eq "uaa"`}}
}

func accountOf(ctx context.Context, s *core.Session, user string) (string, error) {
	var found struct {
		Resources []struct {
			ID string `json:"id"`
		} `json:"resources"`
	}
	err := s.API.Get(ctx, s.Config.Links.UAA+"/Users", accounts(user), &found)
	if err != nil || len(found.Resources) == 0 {
		return "", err
	}
	return found.Resources[0].ID, nil
}

func createUser(ctx context.Context, s *core.Session, w core.Words, f *createUserFlags) (core.Result, error) {
	user, password := w["USER"], w["PASSWORD"]
	if password == "" {
		var err error
		if password, err = s.Secret(ctx, bufio.NewReader(s.Env.In), "Password of "+user); err != nil {
			return nil, err
		}
	}
	s.Say("Creating user %s...", s.Out.Bold(user))
	id, err := accountOf(ctx, s, user)
	if err != nil {
		return nil, err
	}
	existed := id != ""
	if !existed {
		var account struct {
			ID string `json:"id"`
		}
		body := map[string]any{
			"userName": user, "password": password, "origin": "uaa",
			"emails": []any{map[string]any{"value": cmp.Or(f.Email, user), "primary": true}},
			"name":   map[string]string{"givenName": user, "familyName": user},
		}
		if _, err := s.API.Post(ctx, s.Config.Links.UAA+"/Users", body, &account); err != nil {
			return nil, err
		}
		id = account.ID
	}
	// Register the account with the platform too; doing so twice is harmless.
	if _, err := s.API.Post(ctx, "/v3/users", map[string]any{"guid": id}, nil); err != nil &&
		client.Status(err) != http.StatusUnprocessableEntity {
		return nil, err
	}
	if existed {
		s.Say("User %s already exists; the password was not changed.", user)
	}
	s.OK()
	s.Say("Use '%[1]s set-org-role %[2]s ORG ROLE' and '%[1]s set-space-role %[2]s ORG SPACE ROLE' next.",
		s.Env.Program, user)
	return &core.Made{Kind: "user", Name: user, GUID: id, Existed: existed}, nil
}

func deleteUser(ctx context.Context, s *core.Session, w core.Words, f *core.ForceOnlyFlag) (core.Result, error) {
	if err := s.Confirm(ctx, f.Force, "Really delete the user "+w["USER"]); err != nil {
		return nil, err
	}
	s.Acting("Deleting user %s", w["USER"])
	id, err := accountOf(ctx, s, w["USER"])
	if err != nil {
		return nil, err
	}
	if id == "" {
		return s.Absent("User", "user", w["USER"])
	}
	// An earlier attempt that was interrupted may have deleted one of the two.
	if err := s.API.Delete(ctx, "/v3/users/"+id); err != nil && client.Status(err) != http.StatusNotFound {
		return nil, err
	}
	if err := s.API.Delete(ctx, s.Config.Links.UAA+"/Users/"+id); err != nil && client.Status(err) != http.StatusNotFound {
		return nil, err
	}
	s.OK()
	return &core.Removed{Kind: "user", Name: w["USER"], Gone: true}, nil
}

func changePassword(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
	user := s.API.User()
	if user.UserID == "" {
		return nil, &core.Problem{What: "Clients have no password.", Why: "you are logged in as the client " + user.ClientID}
	}
	in := bufio.NewReader(s.Env.In)
	var words [3]string
	for i, what := range []string{"Current password", "New password", "Verify password"} {
		var err error
		if words[i], err = s.Secret(ctx, in, what); err != nil {
			var missing *core.Problem
			if errors.As(err, &missing) {
				missing.Try = "type it, or pass the old password and twice the new one as three lines on standard input"
			}
			return nil, err
		}
	}
	if words[1] != words[2] {
		return nil, &core.Problem{What: "The password was not changed.", Why: "the two new passwords differ"}
	}
	s.Say("Changing password...")
	_, err := s.API.Do(ctx, client.Call{
		Method: http.MethodPut, URL: s.Config.Links.UAA + "/Users/" + user.UserID + "/password",
		Body: map[string]string{"oldPassword": words[0], "password": words[1]},
	})
	if client.Status(err) == http.StatusUnauthorized {
		return nil, &core.Problem{What: "The password was not changed.",
			Why: "the current password is wrong, or the login has expired", Err: err}
	}
	if err != nil {
		return nil, err
	}
	s.OK()
	s.Say("Use '%s login' to log in again.", s.Env.Program)
	return s.JSONOnly(&core.Made{Kind: "password", Name: user.UserName, GUID: user.UserID, Existed: true}), nil
}

func showToken(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
	token, err := s.API.Token(ctx)
	if err != nil {
		return nil, err
	}
	return &core.Text{Key: "token", Value: "bearer " + token}, nil
}

func usersCommands() []*core.Command {
	return slices.Concat(core.InGroup(core.GroupLogin,
		core.Entry("passwd", "", "Change your password", core.NeedsLogin, changePassword, "").Alias("pw"),
		core.Entry("oauth-token", "", "Show the access token", core.NeedsLogin, showToken, "").
			Also(`curl -H "Authorization: $(ingot oauth-token)" …`),
	), core.InGroup(core.GroupUsers,
		core.Entry("create-user", "USER [PASSWORD]", "Create a user", core.NeedsLogin, createUser, "ann@example.com").
			Explained("Prompts for PASSWORD when it is not given."),
		core.Entry("delete-user", "USER [-f]", "Delete a user", core.NeedsLogin, deleteUser, "ann@example.com -f").Slow(),
	))
}

package access

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"net/url"
	"strings"

	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// credential is what git sends with a request: a user name, which does not matter, and the
// token as the password.
type credential struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

func (c *credential) Show(p *term.Printer) {
	p.Println("username=" + c.Username)
	p.Println("password=" + c.Password)
}

// maxCredential limits what git describes.
const maxCredential = 64 << 10

// gitCredential answers git, which asks with a list of keys and values. A token is given away to
// the API that it is for and to no other host.
func gitCredential(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	if w["ACTION"] != "get" {
		return nil, nil // git offers to store the token, or says that it was refused
	}
	asked := url.URL{}
	lines := bufio.NewScanner(io.LimitReader(s.Env.In, maxCredential))
	for lines.Scan() && lines.Text() != "" {
		key, value, _ := strings.Cut(lines.Text(), "=")
		switch key {
		case "protocol":
			asked.Scheme = value
		case "host":
			asked.Host = value
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if !sameOrigin(&asked, s.Config.API) && !sameOrigin(&asked, s.Config.Links.Public) {
		return nil, nil
	}
	token, err := s.API.Token(ctx)
	if err != nil || token == "" {
		return nil, err
	}
	return &credential{Username: cmp.Or(s.API.User().UserName, "token"), Password: token}, nil
}

// sameOrigin reports whether a URL is one of a server.
func sameOrigin(asked *url.URL, server string) bool {
	u, err := url.Parse(server)
	return err == nil && server != "" && strings.EqualFold(u.Scheme, asked.Scheme) && strings.EqualFold(u.Host, asked.Host)
}

func gitCommands() []*core.Command {
	return core.InGroup(core.GroupLogin,
		core.Entry("git-credential", "ACTION", "Give git the access token (git credential helper)", core.NeedsLogin,
			gitCredential, "get").
			Explained("Git calls it with the action get when it pushes to or fetches from the API; see docs/git.md. Other "+
				"hosts get nothing. The actions store and erase do nothing.").
			Also(`git config --global credential.https://api.example.com.helper '!ingot git-credential'`),
	)
}

package access

import (
	"bufio"
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// targetResult describes the current target.
type targetResult struct {
	Context string `json:"context,omitempty"`
	API     string `json:"api"`
	Version string `json:"api_version"`
	User    string `json:"user"`
	Org     string `json:"org"`
	Space   string `json:"space"`
	Local   string `json:"local,omitempty"`
}

func currentTarget(s *core.Session) *targetResult {
	return &targetResult{contextShown(s), s.Config.API, s.Config.APIVersion, s.API.User().Name(),
		s.Config.Org.Name, s.Config.Space.Name, s.Config.Local}
}

func (r *targetResult) Show(p *term.Printer) {
	rows := [][2]string{{"API endpoint", r.API}, {"API version", r.Version}}
	if r.Context != "" {
		rows = append([][2]string{{"context", r.Context}}, rows...)
	}
	if r.User == "" {
		p.Pairs(append(rows, [2]string{"user", "not logged in"})...)
		return
	}
	rows = append(rows, [2]string{"user", r.User}, [2]string{"org", cmp.Or(r.Org, "none targeted")},
		[2]string{"space", cmp.Or(r.Space, "none targeted")})
	if r.Local != "" {
		rows = append(rows, [2]string{"found", "the server on this machine, in " + r.Local})
	}
	p.Pairs(rows...)
}

// contextShown returns the name of the context, "" where the output is that of the cf CLI.
func contextShown(s *core.Session) string {
	if s.Env.Program == "cf" || s.Config.API == "" {
		return ""
	}
	return s.Config.Name()
}

// trustFlags are for commands that target an API.
type trustFlags struct {
	SkipSSL bool   `long:"skip-ssl-validation" description:"Skip TLS certificate validation; not for production"`
	CA      string `long:"ca-cert" value-name:"FILE" description:"Also trust the certificates in this PEM file; kept in the context"`
}

// trust reads the file of certificates.
func (f *trustFlags) trust(s *core.Session) (client.Trust, error) {
	if f.CA == "" {
		return client.Trust{Any: f.SkipSSL}, nil
	}
	content, err := os.ReadFile(s.Env.Path(f.CA))
	if err != nil {
		return client.Trust{}, &core.Problem{What: "The certificates cannot be read.", Why: err.Error(),
			Try: "check the path after --ca-cert", Err: err}
	}
	if !x509.NewCertPool().AppendCertsFromPEM(content) {
		return client.Trust{}, &core.Problem{What: f.CA + " has no certificates.", Why: "no PEM block in it is a certificate",
			Try: "give the certificate of the authority, in PEM form, to --ca-cert"}
	}
	return client.Trust{Any: f.SkipSSL, CA: string(content)}, nil
}

// api

type apiFlags struct {
	trustFlags
	Unset bool `long:"unset" description:"Remove the targeted API endpoint"`
}

func targetAPI(ctx context.Context, s *core.Session, w core.Words, f *apiFlags) (core.Result, error) {
	switch {
	case f.Unset:
		s.Say("Removed the API endpoint.")
		return nil, removeContext(s, s.Config)
	case w["URL"] == "":
		if s.Config.API == "" {
			return nil, s.Check(core.NeedsAPI)
		}
		return currentTarget(s), nil
	}
	s.Say("Setting the API endpoint to %s...", s.Out.Bold(w["URL"]))
	trust, err := f.trust(s)
	if err != nil {
		return nil, err
	}
	if err := s.SetAPI(ctx, withScheme(w["URL"]), trust); err != nil {
		return nil, err
	}
	s.OK()
	return currentTarget(s), s.Config.Save()
}

// withScheme adds a scheme to an address: http for loopback addresses, where
// servers have no certificates, https for all others.
func withScheme(address string) string {
	if strings.Contains(address, "://") {
		return address
	}
	if u, err := url.Parse("http://" + address); err == nil && core.IsLoopback(u.Hostname()) {
		return "http://" + address
	}
	return "https://" + address
}

// login

type loginFlags struct {
	API      string `short:"a" value-name:"URL" description:"API endpoint"`
	User     string `short:"u" value-name:"NAME" description:"User name"`
	Password string `short:"p" value-name:"PASSWORD" description:"Password; visible in the process list"`
	Org      string `short:"o" value-name:"ORG" description:"Org to target"`
	Space    string `short:"s" value-name:"SPACE" description:"Space to target"`
	Passcode string `long:"sso-passcode" value-name:"CODE" description:"One-time passcode to use instead of a password"`
	SSO      bool   `long:"sso" description:"Prompt for a one-time passcode"`
	Origin   string `long:"origin" value-name:"NAME" description:"Identity provider to log in with"`
	trustFlags
}

func logInUser(ctx context.Context, s *core.Session, _ core.Words, f *loginFlags) (core.Result, error) {
	in := bufio.NewReader(s.Env.In)
	api := cmp.Or(f.API, s.Config.API)
	if api == "" {
		var err error
		if api, err = s.Ask(ctx, in, "API endpoint"); err != nil {
			return nil, err
		}
	}
	trust, err := f.trust(s)
	if err != nil {
		return nil, err
	}
	if err := s.SetAPI(ctx, withScheme(api), trust); err != nil {
		return nil, err
	}
	s.Say("API endpoint: %s", s.Out.Bold(s.Config.API))
	for try := 1; ; try++ {
		form, err := f.form(ctx, s, in)
		if err != nil {
			return nil, err
		}
		err = s.LogIn(ctx, "cf", "", form)
		if err == nil {
			break
		}
		if client.Status(err) != http.StatusUnauthorized || f.Password != "" || f.Passcode != "" || try == 3 ||
			!s.Env.InTerminal {
			return nil, rejected(s, err)
		}
		s.Say("Credentials were rejected, please try again.")
	}
	if err := s.Config.Save(); err != nil {
		return nil, err
	}
	s.OK()
	if err := selectTarget(ctx, s, in, f.Org, f.Space); err != nil {
		return nil, err
	}
	if s.Config.Space.GUID == "" {
		s.Say("TIP: Use '%s target -o ORG -s SPACE' to select an org and a space.", s.Env.Program)
	}
	return currentTarget(s), s.Config.Save()
}

func rejected(s *core.Session, err error) error {
	if client.Status(err) != http.StatusUnauthorized {
		return err
	}
	return &core.Problem{What: "The credentials were rejected.", Why: err.Error(),
		Try: fmt.Sprintf("check name and password, then '%s' again", s.LoginCommand()), Err: err}
}

// form returns the login form and prompts for missing values.
func (f *loginFlags) form(ctx context.Context, s *core.Session, in *bufio.Reader) (url.Values, error) {
	form := url.Values{"grant_type": {"password"}}
	if f.Origin != "" {
		form.Set("login_hint", fmt.Sprintf(`{"origin":%q}`, f.Origin))
	}
	if f.SSO || f.Passcode != "" {
		code := f.Passcode
		if code == "" {
			s.Say("Get a passcode at %s/passcode", s.Config.Links.Login)
			var err error
			if code, err = s.Secret(ctx, in, "Passcode"); err != nil {
				return nil, err
			}
		}
		form.Set("passcode", code)
		return form, nil
	}
	user, password := f.User, f.Password
	var err error
	if user == "" {
		if user, err = s.Ask(ctx, in, "Email or user name"); err != nil {
			return nil, err
		}
	}
	if password == "" {
		if password, err = s.Secret(ctx, in, "Password"); err != nil {
			return nil, err
		}
	}
	form.Set("username", user)
	form.Set("password", password)
	return form, nil
}

// auth

type authFlags struct {
	Client bool `long:"client-credentials" description:"Log in as a client: USER is the client id, PASSWORD its secret"`
	Args   struct {
		User     string `positional-arg-name:"USER"`
		Password string `positional-arg-name:"PASSWORD"`
	} `positional-args:"yes"`
}

func authenticate(ctx context.Context, s *core.Session, _ core.Words, f *authFlags) (core.Result, error) {
	user, password := cmp.Or(f.Args.User, s.Env.Getenv("CF_USERNAME")),
		cmp.Or(f.Args.Password, s.Env.Getenv("CF_PASSWORD"))
	if user == "" || password == "" {
		return nil, core.UsageError("USER and PASSWORD are required, as arguments or in CF_USERNAME and CF_PASSWORD")
	}
	s.Say("API endpoint: %s", s.Out.Bold(s.Config.API))
	form := url.Values{"grant_type": {"password"}, "username": {user}, "password": {password}}
	id, secret := "cf", ""
	if f.Client {
		form, id, secret = url.Values{"grant_type": {"client_credentials"}}, user, password
	}
	if err := s.LogIn(ctx, id, secret, form); err != nil {
		return nil, rejected(s, err)
	}
	s.Config.Org, s.Config.Space, s.Config.Client = config.Named{}, config.Named{}, config.OAuthClient{}
	s.Config.SharedWithCF = false // it is another login
	if f.Client {
		s.Config.Client.ID = user
	}
	s.OK()
	s.Say("Use '%s target' to select an org and a space.", s.Env.Program)
	return s.JSONOnly(currentTarget(s)), s.Config.Save()
}

// logout

// logoutTimeout limits how long a logout waits for the server to revoke the login.
const logoutTimeout = 5 * time.Second

func logOut(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Say("Logging out %s...", s.Out.Bold(s.API.User().Name()))
	// The user logged out: do not log in automatically the next time.
	s.Config.Forget()
	s.Config.Local = ""
	if err := s.Config.Save(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, logoutTimeout)
	defer cancel()
	// As with cf, the user is logged out here also if the server cannot be reached.
	_ = s.API.Logout(ctx)
	s.OK()
	return s.JSONOnly(currentTarget(s)), nil
}

// target

type targetFlags struct {
	Org   string `short:"o" value-name:"ORG" description:"Org to target"`
	Space string `short:"s" value-name:"SPACE" description:"Space to target"`
}

func changeTarget(ctx context.Context, s *core.Session, _ core.Words, f *targetFlags) (core.Result, error) {
	if f.Org != "" || f.Space != "" {
		if err := s.Choose(ctx, f.Org, f.Space); err != nil {
			return nil, err
		}
		if err := s.Config.Save(); err != nil {
			return nil, err
		}
	}
	return currentTarget(s), nil
}

func loginCommands() []*core.Command {
	return core.InGroup(core.GroupLogin,
		core.Entry("login", "[-a URL] [-u USER] [-p PASSWORD] [-o ORG] [-s SPACE]", "Log in and select an org and space",
			core.NeedsNothing, logInUser,
			"-a http://api.localhost:8080 -u admin", "--sso").Alias("l").
			Hint("the API endpoint is given by -a, such as 'login -a http://127.0.0.1:8080'").
			Explained("Prompts for values that are not given, including org and space. A server that you run on this machine "+
				"needs no login: the client finds it."),
		core.Entry("api", "[URL]", "Set or show the API endpoint", core.NeedsNothing, targetAPI, "http://127.0.0.1:8080", ""),
		core.Entry("auth", "USER PASSWORD [--client-credentials]", "Log in non-interactively", core.NeedsAPI, authenticate,
			"admin \"$PASSWORD\"", "my-client \"$SECRET\" --client-credentials"),
		core.Entry("logout", "", "Log out", core.NeedsNothing, logOut, "").Alias("lo"),
		core.Entry("target", "[-o ORG] [-s SPACE]", "Set or show the targeted org and space", core.NeedsLogin, changeTarget,
			"", "-o demo -s dev").Alias("t"),
	)
}

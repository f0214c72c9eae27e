package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	xterm "golang.org/x/term"

	"ingot/internal/cli/client"
	"ingot/internal/cli/shell"
)

type sshCommand struct {
	Command  []string `short:"c" long:"command" value-name:"COMMAND" description:"Command to run instead of a shell"`
	Instance int      `short:"i" long:"app-instance-index" value-name:"INDEX" description:"Instance index"`
	Process  string   `long:"process" value-name:"TYPE" default:"web" description:"Process type"`
	Forward  []string `short:"L" value-name:"[BIND:]PORT:HOST:PORT" description:"Forward a local port to a port that the instance can reach (can be repeated)"`
	NoShell  bool     `short:"N" long:"skip-remote-execution" description:"Do not run a command; only forward ports"`
	Pty      bool     `short:"t" long:"request-pseudo-tty" description:"Request a pseudo-terminal, also for a command"`
	ForcePty bool     `long:"force-pseudo-tty" description:"Force pseudo-terminal allocation"`
	NoPty    bool     `short:"T" long:"disable-pseudo-tty" description:"Disable pseudo-terminal allocation"`
	oneApp
}

func (c *sshCommand) run(ctx context.Context, s *session) (result, error) {
	var forwards []shell.Forward
	for _, text := range c.Forward {
		f, err := shell.ParseForward(text)
		if err != nil {
			return nil, &usage{"-L: " + err.Error(), "ssh"}
		}
		forwards = append(forwards, f)
	}
	app, err := s.app(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	login, err := c.login(ctx, s, app)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := shell.Dial(ctx, login)
	if err != nil {
		return nil, &problem{
			What: fmt.Sprintf("No ssh connection to %s, instance %d of process %s.", app.Name, c.Instance, c.Process), Why: err.Error(),
			Try: fmt.Sprintf("'%s app %s' shows which instances run; ssh may be disabled for the app or its space", s.w.Program, app.Name), cause: err,
		}
	}
	defer conn.Close()
	for _, f := range forwards {
		at, err := conn.Forward(ctx, f, func(err error) { s.errs.Printf("Forwarding: %v", err) })
		if err != nil {
			return nil, &problem{What: "The port cannot be forwarded.", Why: err.Error(), Try: "choose another local port", cause: err}
		}
		if !s.Quiet {
			s.errs.Printf("Forwarding %s to %s.", at, f.Remote)
		}
	}
	if c.NoShell {
		return nil, conn.Wait(ctx)
	}
	command := strings.Join(c.Command, " ")
	code, err := conn.Run(ctx, command, s.w.In, s.w.Out, s.w.Err, c.terminal(s, command))
	if err != nil {
		return nil, err
	}
	if code != 0 {
		return nil, &exitError{code}
	}
	return nil, nil //nolint:nilnil // the remote command wrote the output
}

// login returns the address and credentials for an instance.
func (c *sshCommand) login(ctx context.Context, s *session, app client.App) (shell.Login, error) {
	// The server may have started its ssh gateway after the login.
	root, err := s.api.Discover(ctx)
	if err != nil {
		return shell.Login{}, err
	}
	gate := root.Links["app_ssh"]
	if gate == nil || gate.Href == "" {
		return shell.Login{}, &problem{What: "This platform does not support ssh.", Why: "the API at " + s.cfg.API + " does not advertise an ssh gateway"}
	}
	if app.State != "STARTED" {
		return shell.Login{}, &problem{What: "App " + app.Name + " is not started.", Try: fmt.Sprintf("'%s start %s'", s.w.Program, app.Name)}
	}
	var process client.Process
	if err := s.api.Get(ctx, "/v3/apps/"+app.GUID+"/processes/"+c.Process, nil, &process); err != nil {
		if client.Status(err) == 404 {
			return shell.Login{}, &problem{What: fmt.Sprintf("App %s has no process %s.", app.Name, c.Process), Try: fmt.Sprintf("'%s app %s' lists them", s.w.Program, app.Name)}
		}
		return shell.Login{}, err
	}
	stats, err := s.stats(ctx, process.GUID)
	if err != nil {
		return shell.Login{}, err
	}
	state := "not running"
	for _, st := range stats {
		if st.Index == c.Instance {
			state = strings.ToLower(st.State)
		}
	}
	if state != "running" {
		return shell.Login{}, &problem{What: fmt.Sprintf("Instance %d of process %s of %s is %s.", c.Instance, c.Process, app.Name, state), Try: fmt.Sprintf("'%s app %s' shows which instances run", s.w.Program, app.Name)}
	}
	code, err := s.api.Code(ctx, s.cfg.Links.UAA, cmp.Or(gate.Meta.OAuthClient, "ssh-proxy"))
	return shell.Login{
		Address: gate.Href, Fingerprint: gate.Meta.HostKey, User: fmt.Sprintf("cf:%s/%d", process.GUID, c.Instance), Password: code,
	}, err
}

// terminal returns the user's terminal if the session should have one.
func (c *sshCommand) terminal(s *session, command string) *shell.Terminal {
	wanted := c.ForcePty || !c.NoPty && s.w.InTerminal && (command == "" || c.Pty)
	if !wanted {
		return nil
	}
	t := &shell.Terminal{Kind: cmp.Or(s.w.Getenv("TERM"), "xterm"), Size: func() (int, int) { return 43, 80 }}
	file, ok := s.w.In.(*os.File)
	if !ok || !s.w.InTerminal {
		return t
	}
	t.Size = func() (int, int) {
		columns, rows, err := xterm.GetSize(int(file.Fd()))
		if err != nil {
			return 43, 80
		}
		return rows, columns
	}
	t.Raw = func() (func(), error) {
		state, err := xterm.MakeRaw(int(file.Fd()))
		if err != nil {
			return nil, err
		}
		return func() { _ = xterm.Restore(int(file.Fd()), state) }, nil
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	t.Changed = changed
	return t
}

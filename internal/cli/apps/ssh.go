package apps

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	xterm "golang.org/x/term"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/shell"
)

type sshFlags struct {
	Command  []string `short:"c" long:"command" value-name:"COMMAND" description:"Command to run instead of a shell"`
	Instance int      `short:"i" long:"app-instance-index" value-name:"INDEX" description:"Instance index"`
	Process  string   `long:"process" value-name:"TYPE" default:"web" description:"Process type"`
	Forward  []string `short:"L" value-name:"[BIND:]PORT:HOST:PORT" description:"Forward a local port to a port that the instance can reach (can be repeated)"`
	NoShell  bool     `short:"N" long:"skip-remote-execution" description:"Do not run a command; only forward ports"`
	Pty      bool     `short:"t" long:"request-pseudo-tty" description:"Request a pseudo-terminal, also for a command"`
	ForcePty bool     `long:"force-pseudo-tty" description:"Force pseudo-terminal allocation"`
	NoPty    bool     `short:"T" long:"disable-pseudo-tty" description:"Disable pseudo-terminal allocation"`
}

func openSSH(ctx context.Context, s *core.Session, w core.Words, f *sshFlags) (core.Result, error) {
	var forwards []shell.Forward
	for _, text := range f.Forward {
		one, err := shell.ParseForward(text)
		if err != nil {
			return nil, core.UsageError("-L: " + err.Error())
		}
		forwards = append(forwards, one)
	}
	app, err := s.App(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	login, err := f.login(ctx, s, app)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := shell.Dial(ctx, login)
	if err != nil {
		return nil, &core.Problem{
			What: fmt.Sprintf("No ssh connection to %s, instance %d of process %s.", app.Name, f.Instance, f.Process),
			Why:  err.Error(),
			Try: fmt.Sprintf("'%s app %s' shows which instances run; ssh may be disabled for the app or its space",
				s.Env.Program, app.Name), Err: err,
		}
	}
	defer conn.Close()
	for _, one := range forwards {
		at, err := conn.Forward(ctx, one, func(err error) { s.Errs.Printf("Forwarding: %v", err) })
		if err != nil {
			return nil, &core.Problem{What: "The port cannot be forwarded.", Why: err.Error(),
				Try: "choose another local port", Err: err}
		}
		if !s.Quiet {
			s.Errs.Printf("Forwarding %s to %s.", at, one.Remote)
		}
	}
	if f.NoShell {
		return nil, conn.Wait(ctx)
	}
	command := strings.Join(f.Command, " ")
	code, err := conn.Run(ctx, command, s.Env.In, s.Env.Out, s.Env.Err, f.terminal(s, command))
	if err != nil {
		return nil, err
	}
	if code != 0 {
		return nil, &core.ExitError{Code: code}
	}
	return nil, nil //nolint:nilnil // the remote command wrote the output
}

// login returns the address and credentials for an instance.
func (f *sshFlags) login(ctx context.Context, s *core.Session, app cfapi.App) (shell.Login, error) {
	// The server may have started its ssh gateway after the login.
	root, err := s.API.Discover(ctx)
	if err != nil {
		return shell.Login{}, err
	}
	gate := root.Links["app_ssh"]
	if gate == nil || gate.Href == "" {
		return shell.Login{}, &core.Problem{What: "This platform does not support ssh.", Why: "the API at " + s.Config.API +
			" does not advertise an ssh gateway"}
	}
	if app.State != "STARTED" {
		return shell.Login{}, &core.Problem{What: "App " + app.Name + " is not started.", Try: fmt.Sprintf("'%s start %s'",
			s.Env.Program, app.Name)}
	}
	var process cfapi.Process
	if err := s.API.Get(ctx, "/v3/apps/"+app.GUID+"/processes/"+f.Process, nil, &process); err != nil {
		if client.Status(err) == 404 {
			return shell.Login{}, &core.Problem{What: fmt.Sprintf("App %s has no process %s.", app.Name, f.Process),
				Try: fmt.Sprintf("'%s app %s' lists them", s.Env.Program, app.Name)}
		}
		return shell.Login{}, err
	}
	stats, err := InstanceStats(ctx, s, process.GUID)
	if err != nil {
		return shell.Login{}, err
	}
	state := "not running"
	for _, st := range stats {
		if st.Index == f.Instance {
			state = strings.ToLower(st.State)
		}
	}
	if state != "running" {
		return shell.Login{}, &core.Problem{What: fmt.Sprintf("Instance %d of process %s of %s is %s.", f.Instance, f.Process,
			app.Name, state), Try: fmt.Sprintf("'%s app %s' shows which instances run", s.Env.Program, app.Name)}
	}
	code, err := s.API.Code(ctx, s.Config.Links.UAA, cmp.Or(gate.Meta.OAuthClient, "ssh-proxy"))
	return shell.Login{
		Address: gate.Href, Fingerprint: gate.Meta.HostKey, User: fmt.Sprintf("cf:%s/%d", process.GUID, f.Instance),
		Password: code,
	}, err
}

// terminal returns the user's terminal if the session should have one.
func (f *sshFlags) terminal(s *core.Session, command string) *shell.Terminal {
	wanted := f.ForcePty || !f.NoPty && s.Env.InTerminal && (command == "" || f.Pty)
	if !wanted {
		return nil
	}
	t := &shell.Terminal{Kind: cmp.Or(s.Env.Getenv("TERM"), "xterm"), Size: func() (int, int) { return 43, 80 }}
	file, ok := s.Env.In.(*os.File)
	if !ok || !s.Env.InTerminal {
		return t
	}
	t.Size = func() (int, int) {
		for _, end := range []any{s.Env.Out, s.Env.In} { // on Windows only the output has a size
			if f, ok := end.(*os.File); ok {
				if columns, rows, err := xterm.GetSize(int(f.Fd())); err == nil {
					return rows, columns
				}
			}
		}
		return 43, 80
	}
	t.Raw = func() (func(), error) {
		state, err := xterm.MakeRaw(int(file.Fd()))
		if err != nil {
			return nil, err
		}
		restoreOutput := rawOutput(s.Env.Out)
		return func() {
			restoreOutput()
			_ = xterm.Restore(int(file.Fd()), state)
		}, nil
	}
	t.Changed = sizeChanges()
	return t
}

func sshCommands() []*core.Command {
	return core.InGroup(core.GroupInspect,
		core.Entry("ssh", "APP [-c COMMAND] [-i INDEX] [-L PORT:HOST:PORT]",
			"Open a shell in an app instance or forward ports to it", core.NeedsSpace, openSSH,
			"my-app", "my-app -c 'ls -l'", "my-app -N -L 5432:localhost:5432"),
	)
}

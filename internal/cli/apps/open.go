package apps

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

type openFlags struct {
	Console bool `long:"console" description:"Open the app's page in the console instead of the app"`
	Print   bool `long:"print" description:"Print the URL; do not open a browser"`
}

// openInBrowser opens an app, or the console.
func openInBrowser(ctx context.Context, s *core.Session, w core.Words, f *openFlags) (core.Result, error) {
	address, err := opened(ctx, s, w["APP"], f.Console)
	if err != nil {
		return nil, err
	}
	if f.Print {
		return &core.Text{Key: "url", Value: address}, nil
	}
	s.Say("Opening %s...", s.Out.Bold(address))
	if err := openBrowser(ctx, s, address); err != nil {
		s.Errs.Printf("No browser could be started: %v. Open the URL yourself:", err)
		return &core.Text{Key: "url", Value: address}, nil
	}
	return s.Done("url", address)
}

// opened returns the URL of an app, of its page in the console, or of the console.
func opened(ctx context.Context, s *core.Session, name string, console bool) (string, error) {
	if name == "" {
		return consoleURL(ctx, s)
	}
	if err := s.Check(core.NeedsSpace); err != nil {
		return "", err
	}
	app, err := s.App(ctx, name)
	if err != nil {
		return "", err
	}
	if console {
		address, err := consoleURL(ctx, s)
		return address + "/apps/" + app.GUID, err
	}
	routes, err := client.List[cfapi.Route](ctx, s.API, "/v3/apps/"+app.GUID+"/routes", nil)
	if err != nil {
		return "", err
	}
	for _, r := range routes {
		if r.Protocol != "tcp" && r.Port == 0 && !core.IsInternal(r.URL) {
			return s.WebAddress(r), nil
		}
	}
	return "", &core.Problem{
		What: fmt.Sprintf("App %s has no route that a browser can open.", app.Name),
		Try:  fmt.Sprintf("'%[1]s map-route %[2]s DOMAIN -n HOST', or '%[1]s open %[2]s --console'", s.Env.Program, app.Name),
	}
}

// consoleURL returns the URL of the console.
func consoleURL(ctx context.Context, s *core.Session) (string, error) {
	root, err := s.API.Discover(ctx)
	if err != nil {
		return "", err
	}
	address := root.Href("console")
	if address == "" {
		return "", errors.New("this server has no console")
	}
	return address, nil
}

// openBrowser asks the desktop to open an address.
func openBrowser(ctx context.Context, s *core.Session, address string) error {
	program, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		program = "open"
	case "windows":
		program, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	default:
		if s.Env.Getenv("DISPLAY")+s.Env.Getenv("WAYLAND_DISPLAY")+s.Env.Getenv("BROWSER")+
			s.Env.Getenv("WSL_DISTRO_NAME") == "" {
			return errors.New("there is no desktop: neither DISPLAY nor WAYLAND_DISPLAY is set")
		}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return fmt.Errorf("%s is not installed", program)
	}
	if err := exec.CommandContext(ctx, path, args...). //nolint:gosec // an address of the API that the user chose
								Run(); err != nil {
		return fmt.Errorf("%s failed: %w", program, err)
	}
	return nil
}

func openCommands() []*core.Command {
	return core.Last(core.InGroup(core.GroupOther,
		core.Entry("open", "[APP] [--console] [--print]", "Open an app or the console in a browser", core.NeedsAPI,
			openInBrowser, "my-app", "my-app --console", ""),
	))
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"

	"ingot/internal/cli/client"
)

type openFlags struct {
	Console bool `long:"console" description:"Open the app's page in the console instead of the app"`
	Print   bool `long:"print" description:"Print the URL; do not open a browser"`
}

// openInBrowser opens an app, or the console.
func openInBrowser(ctx context.Context, s *session, w words, f *openFlags) (result, error) {
	address, err := s.opened(ctx, w["APP"], f.Console)
	if err != nil {
		return nil, err
	}
	if f.Print {
		return &text{"url", address}, nil
	}
	s.say("Opening %s...", s.out.Bold(address))
	if err := s.openBrowser(ctx, address); err != nil {
		s.errs.Printf("No browser could be started: %v. Open the URL yourself:", err)
		return &text{"url", address}, nil
	}
	return s.done("url", address)
}

// opened returns the URL of an app, of its page in the console, or of the console.
func (s *session) opened(ctx context.Context, name string, console bool) (string, error) {
	if name == "" {
		return s.console(ctx)
	}
	if err := s.check(aSpace); err != nil {
		return "", err
	}
	app, err := s.app(ctx, name)
	if err != nil {
		return "", err
	}
	if console {
		address, err := s.console(ctx)
		return address + "/apps/" + app.GUID, err
	}
	routes, err := client.List[client.Route](ctx, s.api, "/v3/apps/"+app.GUID+"/routes", nil)
	if err != nil {
		return "", err
	}
	for _, r := range routes {
		if r.Protocol != "tcp" && r.Port == 0 && !isInternal(r.URL) {
			return s.webAddress(r), nil
		}
	}
	return "", &problem{
		What: fmt.Sprintf("App %s has no route that a browser can open.", app.Name),
		Try:  fmt.Sprintf("'%[1]s map-route %[2]s DOMAIN -n HOST', or '%[1]s open %[2]s --console'", s.w.Program, app.Name),
	}
}

// console returns the URL of the console.
func (s *session) console(ctx context.Context) (string, error) {
	root, err := s.api.Discover(ctx)
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
func (s *session) openBrowser(ctx context.Context, address string) error {
	program, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		program = "open"
	case "windows":
		program, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	default:
		if s.w.Getenv("DISPLAY")+s.w.Getenv("WAYLAND_DISPLAY")+s.w.Getenv("BROWSER")+s.w.Getenv("WSL_DISTRO_NAME") == "" {
			return errors.New("there is no desktop: neither DISPLAY nor WAYLAND_DISPLAY is set")
		}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return fmt.Errorf("%s is not installed", program)
	}
	if err := exec.CommandContext(ctx, path, args...).Run(); err != nil { //nolint:gosec // an address of the API that the user chose
		return fmt.Errorf("%s failed: %w", program, err)
	}
	return nil
}

package cli

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
)

type openFlags struct {
	Print bool `long:"print" description:"Print the address, and do not open a browser"`
}

// openConsole opens the console, or its page of an app.
func openConsole(ctx context.Context, s *session, w words, f *openFlags) (result, error) {
	root, err := s.api.Discover(ctx)
	if err != nil {
		return nil, err
	}
	address := root.Href("console")
	if address == "" {
		return nil, errors.New("this server has no console")
	}
	if w["APP"] != "" {
		if err := s.check(aSpace); err != nil {
			return nil, err
		}
		app, err := s.app(ctx, w["APP"])
		if err != nil {
			return nil, err
		}
		address += "/apps/" + app.GUID
	}
	if f.Print {
		return &text{"url", address}, nil
	}
	s.say("Opening %s...", s.out.Bold(address))
	if err := openBrowser(ctx, address); err != nil {
		s.say("No browser could be started (%v). Open the address yourself.", err)
	}
	return s.done("url", address)
}

// openBrowser asks the desktop to open an address.
func openBrowser(ctx context.Context, address string) error {
	program, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		program = "open"
	case "windows":
		program, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return err
	}
	return exec.CommandContext(ctx, path, args...).Run() //nolint:gosec // the address of the API that the user chose
}

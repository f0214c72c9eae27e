package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
)

// pluginVariable makes the test program a plugin of the cf CLI.
const pluginVariable = "INGOT_TEST_PLUGIN"

// The parts of the types of the plugin interface that the test needs: they are matched by
// the names of their fields.
type (
	pluginVersion  struct{ Major, Minor, Build int }
	pluginCommand  struct{ Name, HelpText string }
	pluginMetadata struct {
		Name     string
		Version  pluginVersion
		Commands []pluginCommand
	}
	pluginApp struct {
		Guid, Name, State string //nolint:revive,staticcheck // as the CLI names it
		RunningInstances  int
		Stack             *struct{ Name string }
		Instances         []struct{ State string }
		Routes            []struct {
			Host   string
			Domain struct{ Name string }
		}
		Services []struct{ Name string }
	}
	pluginNamed struct{ Guid, Name string } //nolint:revive,staticcheck // as the CLI names it
)

// becomePlugin runs the test program as cf runs plugins: with the port of the interface,
// and a command or the request for a description.
func becomePlugin(out io.Writer, args []string) error {
	if len(args) < 3 {
		return errors.New("this is a plugin of the cf CLI")
	}
	cli, err := rpc.Dial("tcp", "127.0.0.1:"+args[1])
	if err != nil {
		return err
	}
	defer cli.Close()
	if args[2] == "SendMetadata" {
		var ok bool
		return cli.Call("CliRpcCmd.SetPluginMetadata", pluginMetadata{
			Name: "look", Version: pluginVersion{1, 0, 0},
			Commands: []pluginCommand{{"look", "shows what the plugin interface returns"}},
		}, &ok)
	}
	if args[2] != "look" { // uninstalling tells the plugin
		return nil
	}
	var app pluginApp
	if err := cli.Call("CliRpcCmd.GetApp", args[3], &app); err != nil {
		return fmt.Errorf("GetApp: %w", err)
	}
	if app.Stack == nil {
		return errors.New("GetApp: no stack")
	}
	fmt.Fprintln(out, "app", app.Guid, app.Name, app.State, app.RunningInstances, app.Stack.Name)
	for _, i := range app.Instances {
		fmt.Fprintln(out, "instance", i.State)
	}
	for _, r := range app.Routes {
		fmt.Fprintln(out, "route", r.Host+"."+r.Domain.Name)
	}
	for _, s := range app.Services {
		fmt.Fprintln(out, "bound", s.Name)
	}
	for _, method := range []string{"GetApps", "GetOrgs", "GetSpaces", "GetServices"} {
		var found []pluginNamed
		if err := cli.Call("CliRpcCmd."+method, "", &found); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		for _, one := range found {
			fmt.Fprintln(out, method, one.Guid, one.Name)
		}
	}
	var org pluginNamed
	if err := cli.Call("CliRpcCmd.GetOrg", args[4], &org); err != nil {
		return fmt.Errorf("GetOrg: %w", err)
	}
	var space struct{ GetSpaces_Model pluginNamed } //nolint:revive,staticcheck // as the CLI names it
	if err := cli.Call("CliRpcCmd.GetSpace", args[5], &space); err != nil {
		return fmt.Errorf("GetSpace: %w", err)
	}
	fmt.Fprintln(out, "GetOrg", org.Guid, org.Name, "GetSpace", space.GetSpaces_Model.Guid, space.GetSpaces_Model.Name)
	return nil
}

// pluginInterface sees that plugins of the cf CLI get what they ask the CLI for: it reads
// some of it from the v2 API.
func pluginInterface(t *testing.T, s *site) {
	home := s.admin(t)
	cfOK(t, home, pushProbe(t, "plugged")...)
	cfOK(t, home, "create-user-provided-service", "plugged-service", "-p", `{"a":"b"}`)
	cfOK(t, home, "bind-service", "plugged", "plugged-service")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	wrapper := filepath.Join(t.TempDir(), "look")
	testkit.WriteProgram(t, wrapper, "#!/bin/sh\n"+pluginVariable+"=1 exec "+self+` "$@"`+"\n")
	cfOK(t, home, "install-plugin", "-f", wrapper)
	const org, space = "demo", "dev"
	got := cfOK(t, home, "look", "plugged", org, space)
	id := guid(t, home, "plugged")
	contains(t, got, "app "+id+" plugged started 1 cflinuxfs4", "instance running", "route plugged.apps.",
		"bound plugged-service",
		"GetApps "+id+" plugged", "GetOrgs ", " "+org, "GetSpaces ", " "+space, "GetServices ", " plugged-service", "GetOrg ",
		" "+org+" GetSpace ")
	if out, code, err := cfTry(t, home, "look", "absent", org, space); err != nil || code == 0 ||
		!strings.Contains(out, "not found") {
		t.Errorf("an app that does not exist: %d %v %s, want a failure that says so", code, err, out)
	}
	cfOK(t, home, "uninstall-plugin", "look")
}

package push

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/apps"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

type packageFlags struct {
	Path   string `short:"p" value-name:"PATH" description:"Folder, jar, war or zip (default: this folder)"`
	Docker string `short:"o" long:"docker-image" value-name:"IMAGE" description:"Docker image instead of files"`
}

func createPackage(ctx context.Context, s *core.Session, w core.Words, f *packageFlags) (core.Result, error) {
	if f.Path != "" && f.Docker != "" {
		return nil, core.UsageError("-p and --docker-image cannot be combined")
	}
	p := plan{name: w["APP"], path: s.Env.Path(cmp.Or(f.Path, ".")), docker: f.Docker}
	l, err := beginLoad(ctx, p)
	if err != nil {
		return nil, err
	}
	s.Doing("Uploading and creating package for app %s", p.name)
	app, err := s.App(ctx, p.name)
	if err != nil {
		return nil, err
	}
	guid, err := upload(ctx, s, p, app, l)
	if err != nil {
		return nil, err
	}
	s.Say("package guid: %s", guid)
	return s.Done("guid", guid, "app", app.Name)
}

type stageFlags struct {
	Package string `long:"package-guid" value-name:"GUID" description:"Package to stage (default: the newest)"`
}

func stagePackage(ctx context.Context, s *core.Session, app cfapi.App, f *stageFlags) (core.Result, error) {
	guid := f.Package
	if guid == "" {
		newest, err := apps.NewestPackage(ctx, s, app)
		if err != nil {
			return nil, err
		}
		guid = newest.GUID
	}
	droplet, err := apps.Stage(ctx, s, app, guid)
	if err != nil {
		return nil, err
	}
	s.Say("droplet guid: %s", droplet)
	return s.Done("droplet", droplet, "package", guid, "app", app.Name)
}

type copyFlags struct {
	Space     string `short:"s" long:"space" value-name:"SPACE" description:"Space of the destination app (default: the targeted space)"`
	Org       string `short:"o" long:"organization" value-name:"ORG" description:"Org of the destination app (default: the targeted org)"`
	NoRestart bool   `long:"no-restart" description:"Only copy; do not stage or start"`
	apps.DeployFlags
}

func copySource(ctx context.Context, s *core.Session, w core.Words, f *copyFlags) (core.Result, error) {
	options, err := f.Options()
	switch {
	case err != nil:
		return nil, core.UsageError(err.Error())
	case f.Org != "" && f.Space == "":
		return nil, core.UsageError("-o needs -s")
	case f.NoRestart && f.Strategy != "":
		return nil, core.UsageError("--no-restart cannot be combined with --strategy")
	}
	s.Doing("Copying source from app %s to app %s", w["SOURCE"], w["DESTINATION"])
	from, to, err := s.AppPair(ctx, w, f.Org, f.Space)
	if err != nil {
		return nil, err
	}
	source, err := apps.NewestPackage(ctx, s, from)
	if err != nil {
		return nil, err
	}
	var pkg cfapi.Package
	body := map[string]any{"relationships": map[string]any{"app": cfapi.Relate(to.GUID)}}
	if _, err := s.API.Post(ctx, "/v3/packages?source_guid="+url.QueryEscape(source.GUID), body, &pkg); err != nil {
		return nil, err
	}
	if err := awaitPackage(ctx, s, &pkg); err != nil {
		return nil, err
	}
	if f.NoRestart {
		return s.Done("from", from.Name, "to", to.Name, "package", pkg.GUID)
	}
	droplet, err := apps.Stage(ctx, s, to, pkg.GUID)
	if err != nil {
		return nil, err
	}
	if f.Strategy != "" {
		return apps.OrNilToo(apps.Deploy(ctx, s, to, droplet, f.DeployFlags, options))
	}
	if err := apps.SetDroplet(ctx, s, to, droplet); err != nil {
		return nil, err
	}
	return apps.Begin(ctx, s, to, "restart")
}

type pathFlag struct {
	Path string `short:"p" value-name:"FILE" description:"File to write (default: APP_manifest.yml in this folder)"`
}

func createAppManifest(ctx context.Context, s *core.Session, app cfapi.App, f *pathFlag) (core.Result, error) {
	reply, err := s.API.Do(ctx, client.Call{Method: http.MethodGet, URL: "/v3/apps/" + app.GUID + "/manifest",
		Accept: "application/x-yaml"})
	if err != nil {
		return nil, err
	}
	path := s.Env.Path(cmp.Or(f.Path, apps.FileName(app.Name)+"_manifest.yml"))
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil, &core.Problem{What: path + " already exists.", Try: "name another file with -p, or remove it", Err: err}
	}
	if err != nil {
		return nil, err
	}
	_, err = file.Write(reply.Body)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	s.Say("Manifest file created successfully at %s", path)
	return s.Done("path", path, "app", app.Name)
}

func packageCommands() []*core.Command {
	return core.Last(core.InGroup(core.GroupApps,
		core.Entry("create-package", "APP [-p PATH | --docker-image IMAGE]", "Upload a package of an app", core.NeedsSpace,
			createPackage, "my-app -p .").Slow(),
		core.Entry("stage-package", "APP [--package-guid GUID]", "Stage a package into a droplet", core.NeedsSpace,
			core.OnApp("Staging package for app %s", stagePackage), "my-app").Alias("stage").Slow(),
		core.Entry("copy-source", "SOURCE DESTINATION [-s SPACE] [-o ORG] [--no-restart]",
			"Copy the files of an app to another one", core.NeedsSpace, copySource, "my-app your-app",
			"my-app your-app -s other --no-restart").Slow(),
		core.Entry("create-app-manifest", "APP [-p FILE]", "Write a manifest with an app's settings", core.NeedsSpace,
			core.OnApp("Creating an app manifest from current settings of app %s", createAppManifest), "my-app -p manifest.yml"),
	))
}

package cli

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"

	"ingot/internal/cli/client"
)

type packageFlags struct {
	Path   string `short:"p" value-name:"PATH" description:"Folder, jar, war or zip (default: this folder)"`
	Docker string `short:"o" long:"docker-image" value-name:"IMAGE" description:"Docker image instead of files"`
}

func createPackage(ctx context.Context, s *session, w words, f *packageFlags) (result, error) {
	if f.Path != "" && f.Docker != "" {
		return nil, &usage{"-p and --docker-image cannot be combined", "create-package"}
	}
	p := plan{name: w["APP"], path: s.w.path(cmp.Or(f.Path, ".")), docker: f.Docker}
	l, err := beginLoad(ctx, p)
	if err != nil {
		return nil, err
	}
	s.doing("Uploading and creating package for app %s", p.name)
	app, err := s.app(ctx, p.name)
	if err != nil {
		return nil, err
	}
	guid, err := s.upload(ctx, p, app, l)
	if err != nil {
		return nil, err
	}
	s.say("package guid: %s", guid)
	return s.done("guid", guid, "app", app.Name)
}

type stageFlags struct {
	Package string `long:"package-guid" value-name:"GUID" description:"Package to stage (default: the newest)"`
}

func stagePackage(ctx context.Context, s *session, w words, f *stageFlags) (result, error) {
	s.doing("Staging package for app %s", w["APP"])
	app, err := s.app(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	guid := f.Package
	if guid == "" {
		newest, err := s.newestPackage(ctx, app)
		if err != nil {
			return nil, err
		}
		guid = newest.GUID
	}
	droplet, err := s.stage(ctx, app, guid)
	if err != nil {
		return nil, err
	}
	s.say("droplet guid: %s", droplet)
	return s.done("droplet", droplet, "package", guid, "app", app.Name)
}

type copyFlags struct {
	Space     string `short:"s" long:"space" value-name:"SPACE" description:"Space of the destination app (default: the targeted space)"`
	Org       string `short:"o" long:"organization" value-name:"ORG" description:"Org of the destination app (default: the targeted org)"`
	NoRestart bool   `long:"no-restart" description:"Only copy; do not stage or start"`
	deployFlags
}

func copySource(ctx context.Context, s *session, w words, f *copyFlags) (result, error) {
	options, err := f.options()
	switch {
	case err != nil:
		return nil, &usage{err.Error(), "copy-source"}
	case f.Org != "" && f.Space == "":
		return nil, &usage{"-o needs -s", "copy-source"}
	case f.NoRestart && f.Strategy != "":
		return nil, &usage{"--no-restart cannot be combined with --strategy", "copy-source"}
	}
	s.doing("Copying source from app %s to app %s", w["SOURCE"], w["DESTINATION"])
	from, to, err := s.appPair(ctx, w, f.Org, f.Space)
	if err != nil {
		return nil, err
	}
	source, err := s.newestPackage(ctx, from)
	if err != nil {
		return nil, err
	}
	var pkg client.Package
	body := map[string]any{"relationships": map[string]any{"app": client.Relate(to.GUID)}}
	if _, err := s.api.Post(ctx, "/v3/packages?source_guid="+url.QueryEscape(source.GUID), body, &pkg); err != nil {
		return nil, err
	}
	if err := s.awaitPackage(ctx, &pkg); err != nil {
		return nil, err
	}
	if f.NoRestart {
		return s.done("from", from.Name, "to", to.Name, "package", pkg.GUID)
	}
	droplet, err := s.stage(ctx, to, pkg.GUID)
	if err != nil {
		return nil, err
	}
	if f.Strategy != "" {
		return orNilToo(s.deploy(ctx, to, droplet, f.deployFlags, options))
	}
	if err := s.setDroplet(ctx, to, droplet); err != nil {
		return nil, err
	}
	return s.begin(ctx, to, "restart")
}

type pathFlag struct {
	Path string `short:"p" value-name:"FILE" description:"File to write (default: APP_manifest.yml in this folder)"`
}

func createAppManifest(ctx context.Context, s *session, w words, f *pathFlag) (result, error) {
	s.doing("Creating an app manifest from current settings of app %s", w["APP"])
	app, err := s.app(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	reply, err := s.api.Do(ctx, client.Call{Method: http.MethodGet, URL: "/v3/apps/" + app.GUID + "/manifest", Accept: "application/x-yaml"})
	if err != nil {
		return nil, err
	}
	path := s.w.path(cmp.Or(f.Path, fileName(app.Name)+"_manifest.yml"))
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil, &problem{What: path + " already exists.", Try: "name another file with -p, or remove it", cause: err}
	}
	if err != nil {
		return nil, err
	}
	_, err = file.Write(reply.Body)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	s.say("Manifest file created successfully at %s", path)
	return s.done("path", path, "app", app.Name)
}

func packageCommands() []*command {
	return inGroup(groupApps,
		entry("create-package", "APP [-p PATH | --docker-image IMAGE]", "Upload a package of an app", aSpace, createPackage, "my-app -p .").slow(),
		entry("stage-package", "APP [--package-guid GUID]", "Stage a package into a droplet", aSpace, stagePackage, "my-app").alias("stage").slow(),
		entry("copy-source", "SOURCE DESTINATION [-s SPACE] [-o ORG] [--no-restart]", "Copy the files of an app to another one", aSpace, copySource, "my-app your-app", "my-app your-app -s other --no-restart").slow(),
		entry("create-app-manifest", "APP [-p FILE]", "Write a manifest with an app's settings", aSpace, createAppManifest, "my-app -p manifest.yml"),
	)
}

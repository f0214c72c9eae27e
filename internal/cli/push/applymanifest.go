package push

import (
	"cmp"
	"context"

	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

type applyManifestFlags struct {
	Manifest  string   `short:"f" value-name:"FILE" description:"Path to the manifest (default: manifest.yml in this folder)"`
	Vars      []string `long:"var" value-name:"NAME=VALUE" description:"Set a manifest variable"`
	VarsFiles []string `long:"vars-file" value-name:"FILE" description:"YAML file with manifest variables"`
}

// applied is the result of apply-manifest.
type applied struct {
	Apps []string `json:"apps"`
}

func (*applied) Show(*term.Printer) {}

func applyManifest(ctx context.Context, s *core.Session, _ core.Words, f *applyManifestFlags) (core.Result, error) {
	vars, err := readVars(s.Env, f.VarsFiles, f.Vars)
	if err != nil {
		return nil, err
	}
	path := s.Env.Dir
	if f.Manifest != "" {
		path = s.Env.Path(f.Manifest)
	}
	doc, err := readManifest(path, vars)
	if err != nil {
		return nil, err
	}
	out := &applied{}
	for i, app := range doc.Applications {
		out.Apps = append(out.Apps, text0(app, "name"))
		doc.Applications[i] = without(app, "path")
	}
	s.Doing("Applying manifest %s", s.Env.Path(cmp.Or(f.Manifest, ".")))
	warnAbout(s, doc)
	s.Progress.Step("Applying the manifest", 0)
	wait, err := beginManifest(ctx, s, doc)
	if err == nil {
		err = wait()
	}
	if err != nil {
		return nil, err
	}
	s.OK()
	return out, nil
}

func applyManifestCommands() []*core.Command {
	return core.InGroup(core.GroupApps,
		core.Entry("apply-manifest", "[-f FILE]", "Apply a manifest without pushing files", core.NeedsSpace, applyManifest,
			"-f manifest.yml").Slow(),
	)
}

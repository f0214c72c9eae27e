package apps

import (
	"cmp"
	"context"
	"net/http"
	"net/url"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

type deployGitFlags struct {
	Branch   string `short:"b" long:"branch" value-name:"NAME" description:"Branch or tag (default: the repository's default branch)"`
	Folder   string `long:"folder" value-name:"PATH" description:"Folder of the app in the repository"`
	Username string `long:"username" value-name:"NAME" description:"User name for the git server; the password or token is read from CF_GIT_PASSWORD"`
	NoWait   bool   `long:"no-wait" description:"Do not wait until the app runs"`
}

// gitPassword is the environment variable with the password for the git server.
const gitPassword = "CF_GIT_PASSWORD"

// gitDeployed is the result of deploy-git.
type gitDeployed struct {
	core.Made
	Build string `json:"build"`
	Job   string `json:"job"`
	Wait  bool   `json:"complete"`
}

// MarshalJSON encodes all members, not only those of Made.
func (d *gitDeployed) MarshalJSON() ([]byte, error) {
	return core.Marshal(map[string]any{"kind": d.Kind, "name": d.Name, "guid": d.GUID, "existed": d.Existed,
		"build": d.Build, "job": d.Job, "complete": d.Wait})
}

func deployGit(ctx context.Context, s *core.Session, w core.Words, f *deployGitFlags) (core.Result, error) {
	password := s.Env.Getenv(gitPassword)
	if w["URL"] == "" && (f.Branch != "" || f.Folder != "" || f.Username != "") {
		return nil, core.UsageError("--branch, --folder and --username need the URL of the repository")
	}
	s.Doing("Deploying app %s from git", w["APP"])
	app, err := s.App(ctx, w["APP"])
	existed := err == nil
	if err != nil && (!core.IsNotFound(err) || w["URL"] == "") {
		return nil, err
	}
	body := map[string]any{"redeploy": true}
	if w["URL"] != "" {
		git := map[string]any{"url": w["URL"], "branch": f.Branch, "folder": f.Folder, "username": f.Username}
		if password != "" {
			git["password"] = password
		}
		body = map[string]any{"git": git}
	}
	path := "/v3/ingot/apps/" + app.GUID + "/deploy"
	if !existed {
		path, body["name"] = "/v3/ingot/spaces/"+url.PathEscape(s.Config.Space.GUID)+"/deploy", w["APP"]
	}
	var begun struct{ App, Build, Job cfapi.GUID }
	reply, err := s.API.Post(ctx, path, body, &begun)
	if err != nil {
		return nil, err
	}
	if !f.NoWait {
		s.Say("The server fetched the commit. It builds and starts the app...")
		if err := s.API.Job(ctx, reply); err != nil {
			return nil, err
		}
	}
	s.OK()
	return &gitDeployed{core.Made{Kind: "app", Name: w["APP"], GUID: begun.App.GUID, Existed: existed}, begun.Build.GUID,
		begun.Job.GUID, !f.NoWait}, nil
}

func gitSourcePath(app cfapi.App) string { return "/v3/ingot/apps/" + app.GUID + "/git-source" }

func showGitSource(ctx context.Context, s *core.Session, app cfapi.App, _ *core.NoFlags) (core.Result, error) {
	var src cfapi.GitSource
	err := s.API.Get(ctx, gitSourcePath(app), nil, &src)
	if client.Status(err) == http.StatusNotFound {
		return nil, &core.Problem{What: "The app " + app.Name + " has no git repository.",
			Try: "'" + s.Env.Program + " deploy-git " + app.Name + " URL'"}
	}
	if err != nil {
		return nil, err
	}
	text := func(s *string, none string) string {
		if s == nil {
			return none
		}
		return *s
	}
	credentials, webhook := text(src.Username, "none"), "disabled; create-git-webhook enables it"
	if src.HasPassword {
		credentials = cmp.Or(text(src.Username, ""), "git") + ", with a password"
	}
	if src.Webhook.Enabled {
		webhook = src.Webhook.URL
	}
	pairs := [][2]string{{"repository", src.URL}, {"branch", text(src.Branch, "(default)")},
		{"folder", text(src.Folder, "(all)")}, {"credentials", credentials}, {"webhook", webhook}, {"set by", src.Owner}}
	if src.Commit != nil {
		pairs = append(pairs, [2]string{"deployed", (*src.Commit)[:min(7, len(*src.Commit))] + " " + text(src.Subject, "")})
	}
	if src.Error != nil {
		pairs = append(pairs, [2]string{"last webhook", *src.Error})
	}
	return &core.Sheet{Pairs: pairs, JSON: src}, nil
}

func deleteGitSource(ctx context.Context, s *core.Session, w core.Words, f *core.ForceOnlyFlag) (core.Result, error) {
	if err := s.Confirm(ctx, f.Force, "Really delete the git repository of the app "+w["APP"]); err != nil {
		return nil, err
	}
	s.Doing("Deleting git repository of app %s", w["APP"])
	app, err := s.App(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	if err := s.API.Delete(ctx, gitSourcePath(app)); err != nil && client.Status(err) != http.StatusNotFound {
		return nil, err
	}
	s.OK()
	return &core.Removed{Kind: "git-source", Name: app.Name, Gone: true}, nil
}

func createGitWebhook(ctx context.Context, s *core.Session, app cfapi.App, _ *core.NoFlags) (core.Result, error) {
	var src cfapi.GitSource
	if _, err := s.API.Post(ctx, gitSourcePath(app)+"/secret", nil, &src); err != nil {
		return nil, err
	}
	s.OK()
	return &core.Sheet{Pairs: [][2]string{{"URL", src.Webhook.URL}, {"secret", src.Webhook.Secret},
		{"content type", "application/json"}}, JSON: src.Webhook,
		Text: "Enter them in the repository's settings, for push events. The secret is not shown again."}, nil
}

func gitSourceCommands() []*core.Command {
	return core.InGroup(core.GroupApps,
		core.Entry("deploy-git", "APP [URL]", "Deploy an app from a git repository", core.NeedsSpace, deployGit,
			"my-app https://git.example.com/team/shop.git --branch main", "my-app").Slow(),
		core.Entry("git-source", "APP", "Show the git repository of an app", core.NeedsSpace,
			core.OnApp("Getting git repository of app %s", showGitSource), "my-app"),
		core.Entry("delete-git-source", "APP [-f]", "Delete the git repository of an app; the app stays", core.NeedsSpace,
			deleteGitSource, "my-app"),
		core.Entry("create-git-webhook", "APP", "Create or replace the secret of an app's git webhook", core.NeedsSpace,
			core.OnApp("Creating secret of the git webhook of app %s", createGitWebhook), "my-app"),
	)
}

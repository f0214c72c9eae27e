package main

import (
	"html/template"
	"log/slog"
	"net/http"

	"ingot/samples/internal/sample"
)

// page is the form, with the result of the last submission below it.
var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Notification Sender</title>
<style>body{font:1rem/1.5 system-ui;max-width:40rem;margin:2rem auto;padding:0 1rem}label{display:block;margin:.6rem 0}input,textarea{width:100%;font:inherit;box-sizing:border-box}.bad{color:#a00}</style>
<h1>Send a notification</h1>
<form method="post" action="/send">
<label>To (everyone, user:GUID, space:GUID, org:GUID, scope:NAME or email:ADDRESS)
<input name="to" required value="{{.Message.To}}"></label>
<label>Subject <input name="subject" required value="{{.Message.Subject}}"></label>
<label>Text <textarea name="text" rows="5" required>{{.Message.Text}}</textarea></label>
<label>Reply to <input name="reply_to" type="email" value="{{.Message.ReplyTo}}"></label>
<button>Send</button>
</form>
{{with .Steps}}<h2>What was done</h2><ol>{{range .}}<li>{{.}}</li>{{end}}</ol>{{end}}
{{with .Problem}}<p class="bad" role="alert">{{.}}</p>{{end}}
</html>
`))

type view struct {
	Message message
	Steps   []string
	Problem error
}

func handler(s *sender, login *sample.Login) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		show(w, http.StatusOK, view{Message: message{To: "everyone", Subject: "Hello", Text: "Hello from a sample app."}})
	})
	mux.HandleFunc("POST /send", func(w http.ResponseWriter, r *http.Request) {
		// Pages of other sites must not send on behalf of the user.
		if err := new(http.CrossOriginProtection).Check(r); err != nil {
			http.Error(w, "this form is to be sent from its own page", http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		if err := r.ParseForm(); err != nil {
			http.Error(w, "the form cannot be read: "+err.Error(), http.StatusBadRequest)
			return
		}
		v := view{Message: message{To: r.PostForm.Get("to"), Subject: r.PostForm.Get("subject"), Text: r.PostForm.Get("text"),
			ReplyTo: r.PostForm.Get("reply_to")}}
		status := http.StatusOK
		if _, _, v.Problem = v.Message.request(s.kind); v.Problem != nil {
			status = http.StatusBadRequest
		} else if v.Steps, v.Problem = s.send(r.Context(), v.Message); v.Problem != nil {
			slog.Error("a notification is not sent", "error", v.Problem)
			status = http.StatusBadGateway
		}
		show(w, status, v)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if login.Check(w, r) {
			mux.ServeHTTP(w, r)
		}
	})
}

func show(w http.ResponseWriter, status int, v view) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	w.WriteHeader(status)
	if err := page.Execute(w, v); err != nil {
		slog.Info("page not sent completely", "error", err) // the client has disconnected
	}
}

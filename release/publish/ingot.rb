# Written by make release.
class Ingot < Formula
  desc "{{.Summary}}"
  homepage "{{.Source}}"
  version "{{.Version}}"
  license "Apache-2.0"

  on_macos do
    on_arm do
      {{- with file "ingot_*_darwin_arm64.tar.gz"}}
      url "{{$.URL}}/{{.Name}}"
      sha256 "{{.Sum}}"
      {{- end}}
    end
    on_intel do
      {{- with file "ingot_*_darwin_amd64.tar.gz"}}
      url "{{$.URL}}/{{.Name}}"
      sha256 "{{.Sum}}"
      {{- end}}
    end
  end

  on_linux do
    on_arm do
      {{- with file "ingot_*_linux_arm64.tar.gz"}}
      url "{{$.URL}}/{{.Name}}"
      sha256 "{{.Sum}}"
      {{- end}}
    end
    on_intel do
      {{- with file "ingot_*_linux_amd64.tar.gz"}}
      url "{{$.URL}}/{{.Name}}"
      sha256 "{{.Sum}}"
      {{- end}}
    end
  end

  def install
    bin.install "ingot"
    # The server finds these beside bin.
    (lib/"ingot").install %w[{{range $i, $p := .Programs}}{{if $i}} {{end}}{{$p}}{{end}}] if OS.linux?
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/ingot.bash" => "ingot"
    zsh_completion.install "completions/_ingot"
    fish_completion.install "completions/ingot.fish"
    doc.install "README.md", "docs", "sbom.cdx.json"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/ingot version")
  end
end

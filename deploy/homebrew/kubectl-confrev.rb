# The formula of Homebrew, a package manager for macOS and Linux. `make release` fills it in.
class KubectlConfrev < Formula
  desc "Inspect and control rollouts of configuration in Kubernetes"
  homepage "https://confrev.io"
  version "{{ .Number }}"
  license "Apache-2.0"
{{- range $system := .Systems }}

  on_{{ .Name }} do
  {{- range .Archives }}
    on_{{ .CPU }} do
      url "{{ .URI }}"
      sha256 "{{ .SHA256 }}"
    end
  {{- end }}
  end
{{- end }}

  def install
    # kubectl finds both in the PATH; the second one completes.
    bin.install "kubectl-confrev", "kubectl_complete-confrev"
    man1.install Dir["man/man1/*.1"]
  end

  test do
    assert_equal "v#{version}", shell_output("#{bin}/kubectl-confrev version").strip
  end
end

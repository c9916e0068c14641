// VitePress's theme with the fonts of the system, a menu of versions, and a note on the pages of old ones.
import { h } from 'vue'
import DefaultTheme from 'vitepress/theme-without-fonts'
import OldVersion from './OldVersion.vue'
import VersionMenu from './VersionMenu.vue'
import './style.css'

export default {
  extends: DefaultTheme,
  Layout: () => h(DefaultTheme.Layout, null, { 'doc-before': () => h(OldVersion) }),
  enhanceApp({ app }) {
    app.component('VersionMenu', VersionMenu)
  },
}

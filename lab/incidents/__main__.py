from lab.incidents.page import main

main()
